"""The page: self-contained, escaped, of bounded size, and true."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bagwise import BagGP, Bags, MILGPProbit
from bagwise.datasets import load_digit_bags, make_bags
from bagwise.evidence.statements import Evidence, count, fraction, label
from bagwise.exceptions import BagDataError
from bagwise.metrics import bag_report, count_report, fraction_report, instance_report
from bagwise.plots import FractionDisplay
from bagwise.predict.counts import FractionSummary
from bagwise.report import write_report
from bagwise.report.answers import collect
from bagwise.report.bag_cards import INSTANCES_SHOWN, ROWS_SHOWN
from bagwise.report.content import mixing, mixing_warning, number, outcome, reports
from bagwise.report.figures import display_figure

VOID = {"meta", "img", "br", "input"}
SCRIPTS = [{"type": "application/json", "id": "bag-data"}, {}]  # what the table of bags needs, and no other


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
    assert page.count("link") == page.count("iframe") == 0
    assert [attributes for tag, attributes in page.tags if tag == "script"] == SCRIPTS
    assert "url(" not in page.source
    assert "@media print" in page.source
    assert page.count("meta", name="viewport") == 1


def test_hostile_names_are_escaped(tmp_path, data, model):
    bags, y, _ = data
    ids = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', *bags.ids[2:]]
    hostile = Bags(bags.X, np.array(ids, dtype=object)[bags.index])
    page = Page(write_report(model, hostile, y, tmp_path / "r.html", title="<script>", labels=["<b>label</b>"]))
    assert [attributes for tag, attributes in page.tags if tag == "script"] == SCRIPTS
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


def test_page_of_several_labels_averages_and_lists_them(tmp_path, data):
    bags, y, instance_y = data
    labels = np.stack([y] + [np.roll(y, shift) for shift in range(1, 8)], axis=1)
    model = MILGPProbit(n_inducing=10, max_iter=3, random_state=0).fit(bags, labels)
    names = [f"kind {letter}" for letter in "abcdefgh"]
    truth = np.column_stack([instance_y, np.full((len(instance_y), 7), np.nan)])
    page = Page(write_report(model, bags, labels, tmp_path / "r.html", instance_y=truth, labels=names))
    assert "bag AUC (mean over 8 labels)" in page.text
    assert "Measures of bags" in page.text
    assert "Measures of instances" in page.text
    assert "kind h" in page.text
    assert "The first 6 of 8 labels" in page.text


def test_size_of_the_page_is_bounded(tmp_path, model):
    bags, y, _ = make_bags(3000, (13, 14), 4, random_state=1)  # more rows than are shown of a bag
    path = write_report(model, bags, y, tmp_path / "r.html", image_shape=(2, 2))
    page = Page(path)
    assert path.stat().st_size < 400_000
    assert page.count("article") <= 10
    assert page.count("li") <= 10 * INSTANCES_SHOWN
    assert page.count("tr") < ROWS_SHOWN + 60
    assert f"The {ROWS_SHOWN} most probable of 3000" in page.text


def test_size_does_not_grow_with_the_number_of_bags(tmp_path, model, monkeypatch):
    monkeypatch.setattr("bagwise.report.bag_cards.MOST_IN_TABLE", 200)
    sizes = []
    for n_bags in (300, 1500):
        bags, y, _ = make_bags(n_bags, (1, 2), 4, random_state=1)
        path = write_report(model, bags, y, tmp_path / "r.html")
        sizes.append(path.stat().st_size)
        page = Page(path)
        assert "Only the first 200 in this order can be searched and sorted here" in page.text
        assert f"{ROWS_SHOWN} most probable of {n_bags} bags" in page.text
    assert sizes[1] < 1.2 * sizes[0]  # what grows is how finely curves are drawn


@pytest.mark.filterwarnings("ignore::bagwise.exceptions.BagDataWarning")  # larger bags than in the fit
def test_size_does_not_grow_with_the_number_of_rows(tmp_path, model):
    sizes = []
    for n_rows in (30, 600):
        bags, y, instance_y = make_bags(20, (n_rows, n_rows), 4, random_state=1)
        path = write_report(model, bags, y, tmp_path / "r.html", instance_y=instance_y)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]  # what grows is how finely curves are drawn


def test_shares_of_very_many_bags_are_drawn_as_pixels(monkeypatch):
    random = np.random.default_rng(0)
    stated, lower, width = random.random(400), 0.9 * random.random(400), 0.1 * random.random(400)
    display = FractionDisplay(stated, FractionSummary(lower + width / 2, lower, lower + width))
    drawn = len(display_figure(display))
    monkeypatch.setattr("bagwise.plots.fraction.MOST_DRAWN", 300)
    assert len(display_figure(display)) < 0.7 * drawn


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


# ---------------------------------------------------------------- more than labels


def test_fractions_are_compared_with_fractions(tmp_path, told):
    bags, numbers, model = told
    share = numbers / bags.sizes
    found = reports(collect(model, bags, share, None))
    assert found["fractions"] == fraction_report(share, *model.predict_fraction(bags), bags.sizes)
    assert "bags" not in found  # whether a bag holds any positive is not what fractions are about
    page = Page(write_report(model, bags, share, tmp_path / "r.html"))
    for expected in ("Error of fractions", "Measures of fractions", "stated fraction", "expected share", "surprise"):
        assert expected.lower() in page.text.lower()
    _, lower, upper = (part[0] for part in model.predict_fraction(bags))
    assert f"{lower:.2f} to {upper:.2f}" in page.text
    assert "probability 1.00" not in page.text


def test_ranges_of_counts_are_compared_with_ranges(tmp_path, told):
    bags, numbers, model = told
    lo, hi = np.maximum(numbers - 1, 0), np.minimum(numbers + 1, bags.sizes)
    found = reports(collect(model, bags, count(lo, hi), None))
    expected = model.predict_fraction(bags)
    ends = (expected.lower * bags.sizes, expected.upper * bags.sizes)
    assert found["counts"] == count_report(lo, hi, model.predict_count_proba(bags, lo, hi), *ends)
    assert "bags" not in found
    page = Page(write_report(model, bags, count(lo, hi), tmp_path / "r.html"))
    assert "og-likelihood of ranges" in page.text
    assert "bag AUC" not in page.text  # of one class only, there is none
    assert "stated number" in page.text
    assert f"{lo[0]:g} to {hi[0]:g}" in page.text


def test_mixed_evidence_is_taken_apart(told):
    bags, numbers, model = told
    stated = Evidence.concat(
        [
            label((numbers[:10] > 0).astype(float)),
            fraction(numbers[10:25] / bags.sizes[10:25]),
            count(numbers[25:39], numbers[25:39]),
            count([np.nan], [np.nan]),
        ]
    )
    found = reports(collect(model, bags, stated, None))
    assert (found["fractions"]["n"], found["counts"]["n"]) == (15, 14)
    assert (found["bags"]["n"], found["bags"]["missing"]) == (39, 1)


def test_a_model_that_tells_no_fractions_is_judged_by_its_bags(data, model):
    bags, y, _ = data
    found = reports(collect(model, bags, fraction(0.5 * y), None))
    assert list(found) == ["bags"]
    assert found["bags"] == bag_report(y, model.predict_proba(bags)[:, 1])


def test_fractions_do_not_fit_several_labels(data):
    bags, y, _ = data
    model = MILGPProbit(n_inducing=5, max_iter=2, random_state=0).fit(bags, np.stack([y, 1 - y], axis=1))
    with pytest.raises(BagDataError, match="the model has 2 label columns"):
        collect(model, bags, fraction(0.5 * y), None)


# ---------------------------------------------------------------- what was learned, and by what


def test_what_was_learned_is_shown(tmp_path, data):
    bags, y, _ = data
    model = BagGP(n_inducing=10, random_state=0).fit(bags, y)
    page = Page(write_report(model, bags, y, tmp_path / "r.html"))
    assert "Learning the kernel" in page.text
    rows = dict(outcome(model).rows)
    assert rows["inference"] == model.inference_
    assert f"outputscale {model.kernel_.outputscale.item():.4g}" in rows["kernel, learned"]
    assert rows["mean of the latent function"] == number(model.mean_)
    given = BagGP(learn=False, n_inducing=10, random_state=0).fit(bags, y)
    assert "kernel" in dict(outcome(given).rows)
    assert "Learning the kernel" not in Page(write_report(given, bags, y, tmp_path / "r.html")).text


class Sampled:
    """A fitted model that claims to have been sampled."""

    def __init__(self, model, r_hat, ess_bulk):
        self.model = model
        self.table = pd.DataFrame({"r_hat": r_hat, "ess_bulk": ess_bulk})

    def fit_record(self):
        return self.model.fit_record()._replace(chains=SimpleNamespace(table=self.table))

    def __getattr__(self, name):
        return getattr(self.model, name)


@pytest.mark.parametrize(
    ("r_hat", "ess_bulk", "good"),
    [
        ([1.0, 1.009], [400.0, 4000.0], True),
        ([1.0, 1.011], [4000.0, 4000.0], False),
        ([1.0, 1.0], [399.0, 4000.0], False),
        ([1.0, np.nan], [4000.0, 4000.0], False),
    ],
)
def test_chains_that_have_not_converged_are_announced(tmp_path, data, model, r_hat, ess_bulk, good):
    sampled = Sampled(model, r_hat, ess_bulk)
    page = Page(write_report(sampled, data[0], data[1], tmp_path / "r.html"))
    assert ("have not converged" in page.text) is not good
    assert page.count("p", role="alert") == (not good)
    assert "largest R-hat" in page.text
    assert "noise around a level" in page.text
    if not good:
        assert number(mixing(sampled)[0]) in mixing_warning(sampled)
