"""A comparison from Python: measured on the same folds, resumed, and told with errors that allow for overlap."""

import pickle

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from tests.compare.comparison import NAMES, SVM, compared

from bagwise import MILGPProbit
from bagwise.bench import run as bench_run
from bagwise.compare import compare_models
from bagwise.compare.folds import draw_folds
from bagwise.exceptions import BagDataError, BagDataWarning


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


def test_several_label_columns_are_averaged_within_a_fold(problem):
    bags, y, _ = problem
    both = np.column_stack([y, np.arange(36) % 2])
    found = compare_models(bags, both, ["bag-statistics-svm"], settings={"bag-statistics-svm": SVM}, folds=2)
    record = found.records[0]
    expected = np.mean([metrics["bag auc"] for metrics in record["metrics"].values()])
    assert len(record["metrics"]) == 2
    assert found.values("bag-statistics-svm").loc[(0, record["fold"])] == pytest.approx(expected)


def test_comparison_in_which_everything_fails_says_the_first_error(problem):
    found = compare_models(*problem[:2], {"broken": MILGPProbit(n_inducing=-1)}, folds=2)
    with pytest.raises(BagDataError, match=r"no model could be measured by bag auc; the first error was: .*n_inducing"):
        _ = found.best
