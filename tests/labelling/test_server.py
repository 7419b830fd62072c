"""The labelling page through HTTP: answers kept at once, undo, restarts, tabs, and who is turned away."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from tests.labelling.desk import HOSTILE, lines, open_client, open_session, problem

from bagwise import Bags
from bagwise.active import suggest


@pytest.fixture(scope="module")
def given():
    return problem()


@pytest.fixture
def client(tmp_path):
    return open_client(tmp_path)


def truth_of(given, item):
    return int(given[2][item["number"]])


def test_first_item_is_what_suggest_asks_for(client, given):
    session, page = client
    bags, known, _, _ = given
    unknown = np.flatnonzero(np.isnan(known))
    best = suggest(session.model, bags[unknown]).ids[0]
    shown = page.next()
    assert shown["item"]["bag"] == best
    assert "belief" not in json.dumps(shown)  # hidden until asked for
    assert shown["progress"]["known"] == 8
    assert shown["progress"]["bits"] > 0


def test_twenty_items_are_labelled_and_each_is_on_disk_before_the_next_is_shown(client, given, tmp_path):
    session, page = client
    found = page.next()
    for count in range(1, 21):
        item = found["item"]
        found = page.answer(item, truth_of(given, item))
        last = lines(tmp_path)[-1]
        assert (last["kind"], last["bag"], last["values"]) == ("answer", item["bag"], [truth_of(given, item)])
        assert last["by"] == "ann"
        assert found["progress"]["answers"] == count
    session.refit()
    assert session.progress().fitted_to == 28
    model_answers = session.model.predict_proba(given[0])[:, 1] > 0.5
    assert np.mean(model_answers == given[2]) > 0.7


def test_undo_is_another_line_and_shows_the_item_again(client, given, tmp_path):
    _, page = client
    first = page.next()["item"]
    second = page.answer(first, 1)["item"]
    assert second["number"] != first["number"]
    page.answer(second, 0)
    again = page.post("undo").json()
    assert again["item"]["number"] == second["number"]
    assert again["progress"]["answers"] == 1
    assert [line["kind"] for line in lines(tmp_path)] == ["begin", "answer", "answer", "undo"]
    assert page.post("undo").json()["item"]["number"] == first["number"]
    assert page.post("undo").json()["progress"]["answers"] == 0  # nothing left to take back


def test_killed_in_the_middle_of_a_line_it_goes_on_with_nothing_lost(client, given, tmp_path):
    _, page = client
    item, told = page.next()["item"], {}
    for _ in range(5):
        told[item["bag"]] = truth_of(given, item)
        item = page.answer(item, told[item["bag"]])["item"]
    with (tmp_path / "answers.jsonl").open("a") as stream:
        stream.write('{"kind": "answer", "id": "x", "by": "an')  # a process that was killed here
    session, page = open_client(tmp_path)
    assert session.progress().answers == 5
    values = session.known()[:, 0]
    for bag, value in told.items():
        assert values[given[0].ids.index(bag)] == value
    found = page.next()["item"]
    assert found["bag"] not in told
    page.answer(found, 1)
    assert open_session(tmp_path).progress().answers == 6


def test_two_tabs_show_different_items_and_lose_no_answer(client, given, tmp_path):
    session, page = client
    other = page.another_tab()
    one, two = page.next()["item"], other.next()["item"]
    assert one["number"] != two["number"]
    other.answer(two, 1)
    page.answer(one, 0)
    assert {line["bag"]: line["values"] for line in lines(tmp_path)[1:]} == {two["bag"]: [1], one["bag"]: [0]}
    assert page.next()["item"]["number"] not in (one["number"], two["number"])
    page.answer(one, 1)  # the same item again, from a tab that lagged behind: the last word counts, once
    assert session.progress().answers == 2
    assert session.known()[one["number"], 0] == 1


def test_tab_keeps_its_item_while_the_model_is_fitted_again(client, given):
    session, page = client
    shown = page.answer(page.next()["item"], 1)["item"]
    page.another_tab().answer(page.another_tab().next()["item"], 0)
    session.refit()
    assert page.next()["item"]["number"] == shown["number"]


def test_skipped_item_comes_last(client, given):
    _, page = client
    skipped = page.next()["item"]
    found = page.post("skip", item=skipped["number"]).json()
    seen = []
    while found["item"] is not None and found["item"]["number"] != skipped["number"]:
        seen.append(found["item"]["number"])
        found = page.answer(found["item"], 0)
    assert len(seen) == 31
    assert found["item"]["number"] == skipped["number"]
    assert page.answer(skipped, 1)["item"] is None


def test_second_person_sees_what_the_first_has_answered(client, given, tmp_path):
    ann, page = client
    ben = open_session(tmp_path, by="ben")
    item = page.next()["item"]
    assert ben.next("b") == item["number"]
    page.answer(item, 1)
    assert ben.next("b") != item["number"]
    ben.answer("b", ben.next("b"), [0])
    assert ann.next("one") is not None
    assert ann.progress().answers == 2
    page.post("undo")  # takes back the own answer, not the later one of the other
    assert [line["by"] for line in lines(tmp_path) if line["kind"] == "undo"] == ["ann"]
    assert ann.progress().answers == 1


def test_people_who_disagree_leave_the_label_open_and_are_not_asked_again(client, tmp_path):
    ann, page = client
    ben, cy = (open_session(tmp_path, by=name) for name in ("ben", "cy"))
    item = page.next()["item"]
    page.answer(item, 1)
    ben.answer("b", item["number"], [0])
    ann.refit()
    assert page.next()["item"]["number"] != item["number"]
    assert np.isnan(ann.known()[item["number"], 0])
    assert item["number"] in cy._waiting()
    assert item["number"] not in ann._waiting()
    cy.answer("c", item["number"], [1])
    ann.next("one")
    assert ann.known()[item["number"], 0] == 1


def test_item_that_was_undone_after_a_fit_is_not_forgotten(client):
    session, page = client
    first = page.next()["item"]["number"]
    page.answer({"number": first}, 1)
    session.refit()
    assert page.post("undo").json()["item"]["number"] == first
    page.post("skip", item=first)
    assert first in session._waiting()


def test_belief_is_told_on_demand_and_the_journal_says_that_it_was_seen(client, given, tmp_path):
    session, page = client
    item = page.next()["item"]
    found = page.get(f"belief?item={item['number']}").json()
    bag = given[0][item["number"]]
    assert found["belief"][0] == pytest.approx(session.model.predict_proba(bag)[0, 1])
    assert found["rows"] == pytest.approx(session.model.predict_instance_proba(bag)[:, 1].tolist())
    page.answer(item, 1, shown=True)
    assert lines(tmp_path)[-1]["shown"] is True
    assert lines(tmp_path)[-1]["belief"] == pytest.approx(found["belief"], abs=1e-6)


def test_model_is_fitted_again_in_the_background(tmp_path, given):
    session, page = open_client(tmp_path, in_background=True)
    try:
        page.answer(page.next()["item"], 1)
        assert session.settle(30)
        assert session.progress().fitted_to == 9
    finally:
        session.close()


def test_fit_that_fails_leaves_the_page_alive(client, given, monkeypatch):
    session, page = client

    def fail(*_):
        raise ValueError("no fit today")

    monkeypatch.setattr(session._learner, "fit", fail)
    item = page.answer(page.next()["item"], 1)["item"]
    session.refit()
    progress = page.get("progress").json()
    assert "no fit today" in progress["message"]
    assert progress["fitting"] is False
    assert page.answer(item, 0)["item"] is not None


def test_download_is_a_table_that_bags_can_be_made_of(client, given):
    _, page = client
    item = page.next()["item"]
    page.answer(item, 1)
    response = page.get("labels.csv")
    frame = pd.read_csv(io.BytesIO(response.content))
    bags, y = Bags.from_frame(frame, "bag", features=["u", "v"], label="label")
    assert bags.ids == given[0].ids
    expected = given[1].copy()
    expected[item["number"]] = 1
    np.testing.assert_array_equal(y.astype(float), expected)


def test_hostile_id_arrives_as_text(gated, given):
    page, _ = gated
    number = given[0].ids.index(HOSTILE)
    shown = page.get(f"rows?item={number}&start=0")
    assert shown.headers["content-type"] == "application/json"
    assert shown.json()["bag"] == HOSTILE
    text = page.get("").text
    assert HOSTILE not in text
    assert "innerHTML" not in page.get("file/page.js").text
    policy = page.get("").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_title_and_options_are_escaped(tmp_path, given):
    session, page = open_client(tmp_path)
    session.by = HOSTILE
    assert "&lt;img src=x" in page.get("").text
    assert HOSTILE not in page.get("").text
