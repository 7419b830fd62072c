"""A comparison from Python: measured on the same folds, resumed, and told with errors that allow for overlap."""

import pickle

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bagwise import MIPLGP, BagGP, MILGPProbit
from bagwise.baselines import BagStatisticsSVM
from bagwise.bench import run as bench_run
from bagwise.bench.summary import paired_t_test
from bagwise.compare import compare_models
from bagwise.compare.folds import draw_folds
from bagwise.compare.page import verdict, write_comparison
from bagwise.compare.picture import draw_comparison
from bagwise.datasets import make_bags, make_groups
from bagwise.exceptions import BagDataError, BagDataWarning

SVM = {"C": (1.0,), "gamma": (0.01,), "cv": 2}
NAMES = ["mil-gp-probit", "bag-statistics-svm"]


@pytest.fixture(scope="module")
def problem():
    return make_bags(36, (3, 5), random_state=0)


def compared(problem, **changes):
    bags, y, instance_y = problem
    settings = {"mil-gp-probit": {"n_inducing": 8, "max_iter": 5}, "bag-statistics-svm": SVM}
    arguments = {"folds": 3, "settings": settings, "instance_y": instance_y, "groups": np.arange(36) // 2}
    return compare_models(bags, y, NAMES, **(arguments | changes))


@pytest.fixture(scope="module")
def result(problem):
    return compared(problem)


def test_values_are_those_of_a_cross_validation_done_by_hand(problem, result):
    bags, y, _ = problem
    tested = np.zeros(len(bags))
    for (repeat, fold), value in result.values("mil-gp-probit").items():
        record = next(r for r in result.records if (r["model"], r["fold"]) == ("mil-gp-probit", fold))
        split = _split_of(problem, fold)
        model = MILGPProbit(n_inducing=8, max_iter=5, random_state=record["seed"]).fit(bags[~split], y[~split])
        assert value == pytest.approx(roc_auc_score(y[split], model.predict_proba(bags[split])[:, 1]))
        tested += split
        assert repeat == 0
    assert (tested == 1).all()


def test_groups_of_the_bags_themselves_are_kept_whole(problem, result):
    bags, y, truth = problem
    found = compared((bags.with_group(np.arange(36) // 2), y, truth), groups=None)
    assert found.values("mil-gp-probit").equals(result.values("mil-gp-probit"))


def _split_of(problem, fold):
    folds = draw_folds(problem[1].astype(float), np.arange(36) // 2, 3, 1, 0, stratify=True)
    return folds[0] == fold


def test_difference_is_paired_and_its_error_allows_for_overlap(result):
    found = result.difference(*NAMES)
    by_fold = (result.values(NAMES[0]) - result.values(NAMES[1])).to_numpy()
    assert result.overlap == pytest.approx(0.5, abs=0.1)
    assert found.mean == pytest.approx(by_fold.mean())
    assert found.error == pytest.approx(by_fold.std(ddof=1) * np.sqrt(1 / 3 + result.overlap))
    assert found.p == pytest.approx(paired_t_test(by_fold, result.overlap))
    assert found.lower < found.mean < found.upper


def test_instances_are_measured_where_their_labels_are_given(result):
    assert result.mean("mil-gp-probit", "instance auc").n == 3
    assert result.mean("bag-statistics-svm", "instance auc").n == 3
    frame = result.to_frame().set_index("model")
    assert np.isfinite(frame.loc["bag-statistics-svm", "instance auc"])
    assert frame["folds"].tolist() == [3, 3]


def test_second_call_measures_nothing_and_other_data_are_measured_again(problem, tmp_path, monkeypatch):
    first = compared(problem, output=tmp_path)
    measured = []
    usual = bench_run.measure_cell
    monkeypatch.setattr(
        bench_run, "measure_cell", lambda cell, *a, **k: measured.append(cell.key) or usual(cell, *a, **k)
    )
    again = compared(problem, output=tmp_path)
    assert measured == []
    assert again.to_frame().equals(first.to_frame())
    bags, y, instance_y = problem
    compared((bags.with_features(bags.X + 1.0), y, instance_y), output=tmp_path)
    assert len(measured) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "compare.jsonl"]  # no copy of the data is left


def test_interrupted_comparison_goes_on(problem, tmp_path, monkeypatch):
    usual, measured = bench_run.measure_cell, []

    def stop_after_two(cell, *arguments, **options):
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(cell.key)
        return usual(cell, *arguments, **options)

    monkeypatch.setattr(bench_run, "measure_cell", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        compared(problem, output=tmp_path)
    assert not (tmp_path / "bags.npz").exists()
    monkeypatch.setattr(
        bench_run, "measure_cell", lambda cell, *a, **k: measured.append(cell.key) or usual(cell, *a, **k)
    )
    assert compared(problem, output=tmp_path).is_complete
    assert len(measured) == len(set(measured)) == 6


def test_cell_can_be_sent_to_another_process(problem, result, monkeypatch):
    usual = bench_run.measure_cell
    monkeypatch.setattr(
        bench_run, "measure_cell", lambda cell, *a, **k: usual(pickle.loads(pickle.dumps(cell)), *a, **k)
    )
    columns = ["bag auc", "bag auc error", "instance auc"]
    assert compared(problem).to_frame()[columns].equals(result.to_frame()[columns])


def test_bags_without_evidence_are_left_out_with_a_warning(problem):
    bags, y, instance_y = problem
    partly = np.where(np.arange(36) < 4, np.nan, y)
    with pytest.warns(BagDataWarning, match="4 of 36 bags state nothing"):
        found = compared((bags, partly, instance_y))
    assert sum(r["sizes"]["test"] for r in found.records if r["model"] == NAMES[0]) == 32


def test_fractions_are_compared_by_their_error():
    bags, fraction, truth = make_groups(random_state=0)
    models = {"few": BagGP(n_inducing=5, learn=False, inference="vi"), "more": BagGP(n_inducing=20, learn=False)}
    found = compare_models(bags, fraction, models, evidence="fraction", folds=2, instance_y=truth)
    assert found.metric == "fraction mean_absolute_error"
    means = {name: found.mean(name).mean for name in models}
    assert found.best == min(means, key=means.get)
    assert found.estimator("few").get_params()["evidence"] == "fraction"
    assert found.mean("more", "instance auc").mean > 0.7


def test_counts_are_compared_by_the_probability_of_their_ranges(problem):
    bags, y, _ = problem
    ranges = np.column_stack([y, np.where(y == 1, bags.sizes, 0)])
    found = compare_models(bags, ranges, {"one": BagGP(n_inducing=5, learn=False)}, evidence="count", folds=2)
    assert found.metric == "count range_log_likelihood"
    assert found.mean("one").n == 2, found.failed
    assert found.mean("one").mean < 0


def test_candidates_are_compared_by_the_share_of_right_classes():
    bags = make_bags(18, 2, random_state=0)[0]
    table = np.eye(3)[np.arange(18) % 3]
    table[0] = [1, 1, 0]
    model = MIPLGP(learn=False, n_inducing=6, random_state=0)
    found = compare_models(bags, table, {"one": model}, evidence="candidates", folds=2)
    assert found.metric == "class accuracy"
    assert 0 <= found.mean("one").mean <= 1
    assert found.mean("one").n == 2, found.failed


def test_several_label_columns_are_averaged_within_a_fold(problem):
    bags, y, _ = problem
    both = np.column_stack([y, np.arange(36) % 2])
    found = compare_models(bags, both, ["bag-statistics-svm"], settings={"bag-statistics-svm": SVM}, folds=2)
    record = found.records[0]
    expected = np.mean([metrics["bag auc"] for metrics in record["metrics"].values()])
    assert len(record["metrics"]) == 2
    assert found.values("bag-statistics-svm").loc[(0, record["fold"])] == pytest.approx(expected)


def test_model_that_fails_is_told_of_and_does_not_win(problem, tmp_path):
    bags, y, _ = problem
    models = {"fine": BagStatisticsSVM(**SVM), "broken": MILGPProbit(n_inducing=-1)}
    found = compare_models(bags, y, models, folds=2)
    assert found.best == "fine"
    assert not found.is_complete
    assert any(text.startswith("broken failed: ") and "n_inducing" in text for text in verdict(found))
    paths = write_comparison(found, tmp_path, ["<b>&"])
    assert [path.name for path in paths] == ["comparison.csv", "comparison.png", "comparison.html"]
    assert "&lt;b&gt;&amp;" in paths[2].read_text()


def test_picture_shows_the_best_on_top(result):
    left, right = draw_comparison(result).axes
    assert [text.get_text() for text in left.get_yticklabels()][-1] == result.best
    assert "best minus this one" in right.get_xlabel()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ["bag-gp", "bag-gp"]}, "named twice"),
        ({"models": ["fox"]}, "--models fox: there is no such model; there are bag-gp"),
        ({"models": ["miplgp"], "evidence": "fraction"}, "miplgp takes candidates, label, not evidence of the kind"),
        ({"models": ["bag-gp"], "settings": {"bag-gp": {"foxes": 1}}}, "bag-gp has no setting 'foxes'"),
        ({"models": ["bag-gp"], "settings": {"gpmil": {}}}, "settings for gpmil: it is not among the models"),
        ({"models": {"mine": object()}}, "object is no model or baseline of bagwise"),
        ({"metric": "bag beauty"}, "metric='bag beauty'"),
        ({"folds": 1}, "folds"),
        ({"y": np.full(36, np.nan)}, "nothing is stated about any bag"),
    ],
)
@pytest.mark.filterwarnings("ignore:every bag label is missing")
def test_what_cannot_be_compared_is_refused(problem, changes, message):
    bags, y, _ = problem
    with pytest.raises(BagDataError, match=message):
        compare_models(bags, changes.pop("y", y), changes.pop("models", NAMES), **changes)


def test_comparison_in_which_everything_fails_says_the_first_error(problem):
    found = compare_models(*problem[:2], {"broken": MILGPProbit(n_inducing=-1)}, folds=2)
    with pytest.raises(BagDataError, match=r"no model could be measured by bag auc; the first error was: .*n_inducing"):
        _ = found.best
