"""The page: self-contained, escaped, of bounded size, and true."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from bagwise import Bags, MILGPProbit
from bagwise.datasets import load_digit_bags, make_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import bag_report, instance_report
from bagwise.report import write_report
from bagwise.report.bag_cards import INSTANCES_SHOWN, ROWS_SHOWN, choose_bags
from bagwise.report.content import number

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; complains about tags that do not match."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def count(self, tag, **attributes):
        return sum(name == tag and attributes.items() <= found.items() for name, found in self.tags)


@pytest.fixture(scope="module")
def data():
    return make_bags(40, (4, 15), 4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    bags, y, _ = data
    return MILGPProbit(n_inducing=12, max_iter=8, random_state=0).fit(bags, y)


def test_a_page_with_everything(tmp_path, data, model):
    bags, y, instance_y = data
    path = write_report(model, bags, y, tmp_path / "r.html", instance_y=instance_y, title="Cells", note="Forty slides.")
    page = Page(path)
    for expected in ("Cells", "Forty slides.", "MILGPProbit on 40 bags", "Reliability", "ROC", "Course of the fit"):
        assert expected in page.text
    for report in (
        bag_report(y, model.predict_proba(bags)[:, 1]),
        instance_report(instance_y, model.predict_instance_proba(bags)[:, 1]),
    ):
        for name in ("auc", "log_likelihood", "calibration_error"):
            assert number(report[name]) in page.text
    assert all(name in page.text for name in bags.ids)
    assert page.count("h2") == 4


def test_the_page_needs_nothing_from_elsewhere(tmp_path, data, model):
    page = Page(write_report(model, data[0], data[1], tmp_path / "r.html", image_shape=(2, 2)))
    sources = [attributes["src"] for _, attributes in page.tags if "src" in attributes]
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert page.count("script") == page.count("link") == page.count("iframe") == 0
    assert "url(" not in page.source
    assert "@media print" in page.source
    assert page.count("meta", name="viewport") == 1


def test_hostile_names_are_escaped(tmp_path, data, model):
    bags, y, _ = data
    ids = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', *bags.ids[2:]]
    hostile = Bags(bags.X, np.array(ids, dtype=object)[bags.index])
    model.columns_ = {"label": ["<b>label</b>"]}
    page = Page(write_report(model, hostile, y, tmp_path / "r.html", title="<script>"))
    model.columns_ = {}
    assert page.count("script") == 0
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert ids[0] in page.text
    assert ids[1] in page.text


def test_without_labels_there_are_no_figures_of_merit(tmp_path, data, model):
    page = Page(write_report(model, data[0], None, tmp_path / "r.html"))
    assert "No labels were given" in page.text
    assert "AUC" not in page.text
    assert "Reliability" not in page.text
    assert "Course of the fit" in page.text


def test_unknown_labels_and_one_class(tmp_path, data, model):
    bags, y, _ = data
    holes = np.where(y == 1, 1.0, np.nan)
    page = Page(write_report(model, bags, holes, tmp_path / "r.html"))
    assert f"{int(y.sum())} ({int((1 - y).sum())} without truth)" in page.text
    assert "ROC" not in page.text
    nothing = Page(write_report(model, bags, np.full(40, np.nan), tmp_path / "r.html"))
    assert "Reliability" not in nothing.text


def test_labels_may_be_keyed_by_id(tmp_path, data, model):
    bags, y, _ = data
    shuffled = dict(reversed(list(zip(bags.ids, y.tolist(), strict=True))))
    keyed = write_report(model, bags, shuffled, tmp_path / "a.html").read_bytes()
    assert keyed == write_report(model, bags, y, tmp_path / "b.html").read_bytes()


def test_several_labels(tmp_path, data):
    bags, y, instance_y = data
    labels = np.stack([y] + [np.roll(y, shift) for shift in range(1, 8)], axis=1)
    model = MILGPProbit(n_inducing=10, max_iter=3, random_state=0).fit(bags, labels)
    model.columns_ = {"bag": "slide", "label": [f"kind {letter}" for letter in "abcdefgh"]}
    truth = np.column_stack([instance_y, np.full((len(instance_y), 7), np.nan)])
    page = Page(write_report(model, bags, labels, tmp_path / "r.html", instance_y=truth))
    assert "bag AUC (mean over 8 labels)" in page.text
    assert "Measures of bags" in page.text
    assert "Measures of instances" in page.text
    assert "kind h" in page.text
    assert "The first 6 of 8 labels" in page.text


def test_size_is_bounded(tmp_path, model):
    bags, y, _ = make_bags(3000, (30, 40), 4, random_state=1)
    path = write_report(model, bags, y, tmp_path / "r.html", image_shape=(2, 2))
    page = Page(path)
    assert path.stat().st_size < 400_000
    assert page.count("article") <= 10
    assert page.count("li") <= 10 * INSTANCES_SHOWN
    assert page.count("tr") < ROWS_SHOWN + 60
    assert f"The {ROWS_SHOWN} most probable of 3000" in page.text


def test_large_pictures_are_made_small(tmp_path):
    random = np.random.default_rng(0)
    bags = Bags(random.random((8, 120 * 100 * 3)), [0, 0, 0, 0, 1, 1, 1, 1])
    model = MILGPProbit(n_inducing=4, max_iter=2, random_state=0).fit(bags, [0, 1])
    path = write_report(model, bags, [0, 1], tmp_path / "r.html", image_shape=(120, 100, 3))
    assert path.stat().st_size < 300_000


def test_the_nine_is_seen_to_be_found(tmp_path):
    bags, y, instance_y = load_digit_bags()
    model = MILGPProbit(bias=5.0, random_state=0).fit(bags[:100], y[:100])
    truth = instance_y[bags.offsets[100] :]
    path = write_report(model, bags[100:], y[100:], tmp_path / "r.html", instance_y=truth, image_shape=(8, 8))
    first = re.search(r"<article.*?</article>", path.read_text(), re.S)[0]
    classes = re.findall(r"<li( class=\"positive\")?>", first)
    assert classes[0] != ""


def test_bags_are_chosen_once_and_for_a_reason():
    probability = np.array([0.9, 0.8, 0.1, 0.45, 0.05])
    chosen = choose_bags(probability, np.array([1, 0, 1, np.nan, 0]))
    assert chosen[0] == "most probable"
    assert chosen[2] == "judged wrongly"
    assert chosen[3] == "least certain"
    assert sorted(chosen) == [0, 1, 2, 3, 4]
    assert "judged wrongly" not in choose_bags(probability, None).values()


def test_bad_requests_leave_no_file(tmp_path, data, model):
    bags, y, instance_y = data
    for arguments, message in (
        ({"y": y, "image_shape": (9, 9)}, "with 4 values in all"),
        ({"y": y[:-1]}, r"one label per bag \(40\)"),
        ({"y": y + 5}, "label 5: expected 0 or 1"),
        ({"y": y, "instance_y": instance_y[:-1]}, rf"one label per instance \({len(instance_y)}\)"),
    ):
        with pytest.raises(BagDataError, match=message):
            write_report(model, bags, path=tmp_path / "r.html", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_numbers_for_reading():
    assert [number(value) for value in (0.12345, -1.5, float("nan"), -np.inf, np.inf)] == [
        "0.123",
        "−1.500",
        "–",
        "−∞",
        "∞",
    ]
