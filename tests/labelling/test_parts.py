"""The parts of a labelling session: questions, the journal, what is shown, what is asked next."""

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imsave
from tests.labelling.desk import fitted, open_session, problem

from bagwise import MIPLGP, BagGP, Bags, MILGPProbit
from bagwise.active import suggest
from bagwise.datasets import load_digit_bags, make_bags
from bagwise.exceptions import BagDataError
from bagwise.io.json_lines import append_line, cut_unfinished, read_lines
from bagwise.labelling.exhibit import ROWS_SHOWN, make_exhibit
from bagwise.labelling.export import labelled_table
from bagwise.labelling.journal import Journal
from bagwise.labelling.learner import Learner, ask
from bagwise.labelling.pool import make_pool
from bagwise.labelling.question import ONE_OF, SEVERAL, TWO, Question, question_for
from bagwise.labelling.session import Session
from bagwise.metrics import expected_auc

YES_NO = Question(TWO, ("no", "yes"))


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("question", "good", "bad"),
    [
        (YES_NO, [1], [[], [2], [0, 1], [1.0], [True], "1", None]),
        (Question(SEVERAL, ("a", "b")), [0, 0], [[0], [0, 2], [None, 1]]),
        (Question(ONE_OF, ("a", "b", "c")), [0, 1, 0], [[0, 0, 0], [1, 1, 0], [1]]),
    ],
)
def test_only_zeros_and_ones_of_the_right_number_are_an_answer(question, good, bad):
    assert question.checked(good) == tuple(good)
    for values in bad:
        with pytest.raises(BagDataError, match="expected a list of"):
            question.checked(values)


def test_model_that_cannot_be_told_is_refused():
    bags, y, _ = make_bags(12, 3, random_state=0)
    probit = MILGPProbit(n_inducing=4, random_state=0).fit(bags, y)
    with pytest.raises(BagDataError, match="MILGPProbit does not learn from single instances"):
        question_for(probit, "instances", [])
    fractions = BagGP(evidence="fraction", n_inducing=4, learn=False, random_state=0).fit(bags, y * 0.5)
    with pytest.raises(BagDataError, match="fitted to evidence of the kind fraction"):
        question_for(fractions, "bags", [])
    assert question_for(fractions, "instances", []).kind == TWO


# ---------------------------------------------------------------- the journal


def test_journal_of_other_questions_or_with_a_damaged_line_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    Journal(path, "bags", YES_NO).answer("ann", ("x", None), [1], None, False)
    with pytest.raises(BagDataError, match="holds answers about bags"):
        Journal(path, "instances", YES_NO)
    with pytest.raises(BagDataError, match=r"with the options \['no', 'yes'\]"):
        Journal(path, "bags", Question(TWO, ("0", "1")))
    lines = path.read_text().splitlines()
    path.write_text(f"{lines[0]}\nnonsense\n{lines[1]}\n")
    with pytest.raises(BagDataError, match="line 2: not a line of answers"):
        Journal(path, "bags", YES_NO)
    broken = json.loads(lines[1]) | {"values": [7]}
    path.write_text(f"{lines[0]}\n{json.dumps(broken)}\n")
    with pytest.raises(BagDataError, match="is no answer"):
        Journal(path, "bags", YES_NO)


def test_answers_about_bags_that_are_not_there_are_refused(tmp_path):
    session = open_session(tmp_path)
    session._journal.answer("ann", ("stranger", None), [1], None, False)
    with pytest.raises(BagDataError, match="speak of bag 'stranger'"):
        open_session(tmp_path)


def test_half_a_line_is_cut_and_whole_lines_are_numbered_from_the_start(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_line(path, {"a": 1})
    start = path.stat().st_size
    append_line(path, {"b": float("nan")})
    with path.open("a") as stream:
        stream.write('{"a"')
    assert list(read_lines(path, (), "a line")) == [{"a": 1}, {"b": None}]
    with pytest.raises(BagDataError, match="line 2: not a line"):
        list(read_lines(path, ("a",), "a line", start))
    cut_unfinished(path)
    assert path.read_text() == '{"a": 1}\n{"b": null}\n'


# ---------------------------------------------------------------- several labels, classes, instances


def session_for(model, bags, y, folder, what="bags", labels=("a", "b")):
    question = question_for(model, what, list(labels))
    pool = make_pool(model, bags, y, what, question)
    return Session(model, pool, Journal(folder / "a.jsonl", what, question), in_background=False)


def test_several_labels_are_answered_together_and_learned(tmp_path):
    bags, y, _ = make_bags(16, 3, random_state=0)
    both = np.column_stack([y, bags.sizes * 0 + np.arange(16) % 2]).astype(float)
    model = BagGP(n_inducing=6, learn=False, random_state=0).fit(bags[:8], both[:8])
    known = np.where(np.arange(16)[:, None] < 8, both, np.nan)
    session = session_for(model, bags, known, tmp_path)
    number = session.next("t")
    session.answer("t", number, [1, 0])
    session.refit()
    assert session.progress().message is None
    assert session.progress().fitted_to == 9
    table = labelled_table(session.pool, session.known(), None, "bag", ("a", "b"), None)
    of_item = table[table["bag"] == bags.ids[number]]
    assert set(of_item["a"]) == {1}
    assert set(of_item["b"]) == {0}


def test_one_class_out_of_many_is_asked_for_where_it_is_least_certain(tmp_path):
    bags = make_bags(18, 3, random_state=0)[0]
    names = np.array(["ant", "bee", "cat"])[np.arange(18) % 3].astype(object)
    model = MIPLGP(learn=False, n_inducing=8, random_state=0).fit(bags[:9], names[:9])
    known = [{name} for name in names[:8]] + [{"ant", "bee"}] + [None] * 9  # the ninth is known up to two candidates
    session = session_for(model, bags, known, tmp_path)
    assert session.progress().left == 10
    assert session.pool.question == Question(ONE_OF, ("ant", "bee", "cat"))
    p = model.predict_proba(bags[8:])
    entropy = -(p * np.log2(p)).sum(axis=1)
    assert session.next("t") == 8 + int(np.argmax(entropy))
    session.answer("t", session.next("t"), [0, 1, 0])
    _, y = session.pool.evidence(session.known())
    assert y.iloc[8].tolist() in ([1, 1, 0], [0, 1, 0])
    session.refit()
    assert session.progress().fitted_to == 9, session.progress().message
    assert session.progress().measure == "accuracy"


def test_instances_are_asked_for_as_suggest_does_and_become_known(tmp_path):
    bags = problem()[0]
    session = open_session(tmp_path, what="instances")
    number = session.next("t")
    assert number == int(suggest(fitted(), bags, what="instances").indices[0])
    session.answer("t", number, [1])
    fit_bags, _ = session.pool.evidence(session.known())
    assert fit_bags.known[number] == 1
    assert np.isnan(np.delete(fit_bags.known, number)).all()
    session.refit()
    assert session.progress().fitted_to == 1, session.progress().message


def test_people_who_name_three_classes_leave_the_class_open(tmp_path):
    question = Question(ONE_OF, ("a", "b", "c"))
    bags = make_bags(4, 2, random_state=0)[0]
    journal = Journal(tmp_path / "a.jsonl", "bags", question)
    for by, values in (("ann", [1, 0, 0]), ("ben", [0, 1, 0]), ("cy", [0, 0, 1])):
        journal.answer(by, (bags.ids[0], None), values, None, False)
    pool = make_pool(fitted(), bags, None, "bags", question)
    assert np.isnan(pool.known(journal.latest())[0]).all()
    journal.answer("cy", (bags.ids[0], None), [1, 0, 0], None, False)
    assert pool.known(journal.latest())[0].tolist() == [1, 0, 0]


def test_contradiction_between_bag_and_instance_is_told_on_the_page(tmp_path):
    bags, known, _, _ = problem()
    session = open_session(tmp_path, what="instances")
    in_negative = int(np.flatnonzero((known == 0)[bags.index])[0])
    session.answer("t", in_negative, [1])
    session.refit()
    assert "contradicts its instances" in session.progress().message


def test_model_waits_for_both_answers_before_it_is_fitted(tmp_path):
    bags, _, _, _ = problem()
    session = session_for(fitted(), bags, None, tmp_path)
    session.answer("t", session.next("t"), [1])
    session.refit()
    assert "both answers" in session.progress().message
    session.answer("t", session.next("t"), [0])
    session.refit()
    assert session.progress().fitted_to == 2


def test_kernel_is_learned_again_only_when_labels_have_doubled():
    bags, y, _ = make_bags(6, 1, random_state=0)
    model = BagGP(n_inducing=3, random_state=0).fit(bags, y)
    learner = Learner(model, 10)
    assert learner.fit(bags, y, 19).model.get_params()["learn"] is False
    assert learner.fit(bags, y, 20).model.get_params()["learn"] is True
    assert learner.fit(bags, y, 39).model.get_params()["learn"] is False


def test_order_is_the_batch_of_suggest_and_then_by_utility(tmp_path):
    bags, known, _, _ = problem()
    session = open_session(tmp_path)
    asking = ask(fitted(), session.pool, session.known(), "bald", None)
    unknown = np.flatnonzero(np.isnan(known))
    batch = suggest(fitted(), bags[unknown], n=6)
    assert asking.order[:6].tolist() == unknown[batch.indices].tolist()
    assert asking.bits[:6] == pytest.approx(batch.gains / np.log(2))
    assert (np.diff(asking.bits[6:]) <= 0).all()
    assert sorted(asking.order) == unknown.tolist()


# ---------------------------------------------------------------- what is shown


def test_rows_are_shown_as_the_table_has_them_and_labels_are_not():
    bags, known, _, frame = problem()
    pool = make_pool(fitted(), bags, known, "bags", YES_NO)
    frame = frame.assign(secret=1)
    exhibit = make_exhibit(pool, frame, bag="bag", hidden=["secret"], text="note")
    item = exhibit.item(3)
    assert item["columns"] == ["u", "v"]
    lines = frame.index[frame["bag"] == bags.ids[3]]
    assert [row["row"] for row in item["rows"]] == lines.tolist()
    assert [row["text"] for row in item["rows"]] == frame.loc[lines, "note"].tolist()
    assert item["rows"][0]["cells"] == [f"{frame.loc[lines[0], name]:.6g}" for name in ("u", "v")]
    assert all(row["picture"] is None for row in item["rows"])


def test_large_bag_is_shown_in_parts():
    bags = Bags(np.zeros((150, 2)), ["a"] * 150)
    pool = make_pool(fitted(), bags, None, "bags", YES_NO)
    exhibit = make_exhibit(pool, None)
    assert len(exhibit.item(0)["rows"]) == ROWS_SHOWN
    last = exhibit.item(0, 120)
    assert len(last["rows"]) == 30
    assert last["total"] == 150


def test_features_that_are_pixels_are_shown_as_pictures():
    bags, _, _ = load_digit_bags(9, 4, (2, 3), (1, 1), random_state=0)
    pool = make_pool(None, bags, None, "instances", YES_NO)
    row = make_exhibit(pool, None, image_shape=(8, 8)).item(0)["rows"][0]
    assert row["picture"].startswith("data:image/png;base64,")
    assert row["cells"] == []


def test_only_pictures_that_the_table_names_are_read(tmp_path):
    imsave(tmp_path / "one.png", np.zeros((4, 4)), cmap="gray")
    (tmp_path / "two.png").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "three.svg").write_text("<svg/>")
    frame = pd.DataFrame({"u": range(5), "bag": ["a"] * 5})
    frame["file"] = ["one.png", "two.png", "three.svg", "four.png", None]
    pool = make_pool(fitted(), Bags.from_frame(frame, "bag", features=["u"]), None, "bags", YES_NO)
    exhibit = make_exhibit(pool, frame, bag="bag", image="file", folder=tmp_path)
    assert [row["picture"] for row in exhibit.item(0)["rows"]] == [*(f"picture/{line}" for line in range(4)), None]
    content, kind = exhibit.picture(0)
    assert kind == "image/png"
    assert content == (tmp_path / "one.png").read_bytes()
    for line in (1, 2, 3, 4, 5, -1):
        with pytest.raises(BagDataError, match=f"row {line}: "):
            exhibit.picture(line)


def test_archive_has_no_columns_to_name():
    bags, known, _, _ = problem()
    pool = make_pool(fitted(), bags, known, "bags", YES_NO)
    with pytest.raises(BagDataError, match=r"the data are an \.npz archive"):
        make_exhibit(pool, None, text="note")


# ---------------------------------------------------------------- the expected AUC


@pytest.mark.parametrize("ties", [False, True])
def test_expected_auc_is_the_sum_over_all_pairs(ties):
    p = np.random.default_rng(0).random(30).round(1 if ties else 8)
    right = total = 0.0
    for i in range(30):
        for j in range(30):
            if i != j:
                weight = p[i] * (1 - p[j])
                right += weight * (1.0 if p[i] > p[j] else 0.5 if p[i] == p[j] else 0.0)
                total += weight
    assert expected_auc(p) == pytest.approx(right / total)


def test_expected_auc_of_certainties_and_of_nothing():
    assert expected_auc([0.0, 1.0, 1.0]) == 1.0
    assert expected_auc([0.5, 0.5]) == 0.5
    assert np.isnan(expected_auc([1.0, 1.0]))
    assert np.isnan(expected_auc([0.3]))
