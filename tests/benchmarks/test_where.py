import json
import time

import numpy as np
import pytest
from benchmarks.where.__main__ import main
from benchmarks.where.errors import of_auc, standard_errors
from benchmarks.where.page import BEGIN, END
from benchmarks.where.ranks import critical_difference, friedman, ranking
from benchmarks.where.results import Results
from benchmarks.where.sets import MOST_BAGS, ready, some_bags, sources, two_classes
from benchmarks.where.table import METRICS, TooLongError, alarm
from scipy import stats
from sklearn.metrics import roc_auc_score

from bagwise.datasets import make_bags
from bagwise.io.npz import write_npz

RNG = np.random.default_rng(0)


def test_critical_difference_is_that_of_the_table_of_demsar():
    # Table 5a there has q = 2.569 for 4 and 2.728 for 5 classifiers at 0.05
    assert critical_difference(14, 4) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert critical_difference(30, 5) == pytest.approx(2.728 * np.sqrt(5 * 6 / (6 * 30)), abs=1e-3)


def test_friedman_follows_from_the_statistic_of_scipy():
    scores = RNG.normal(size=(12, 5)) + np.arange(5) * 0.3
    chi = stats.friedmanchisquare(*scores.T).statistic
    expected = stats.f.sf(11 * chi / (12 * 4 - chi), 4, 44)
    assert friedman(stats.rankdata(-scores, axis=1)) == pytest.approx(expected)


def test_models_without_a_result_share_the_last_ranks():
    found = ranking(["a", "b", "c", "d"], np.array([[0.1, np.nan, 0.5, np.nan], [-np.inf, 0.2, 0.3, np.nan]]))
    assert dict(zip(found.models, found.means, strict=True)) == {"c": 1.0, "a": 2.75, "b": 2.75, "d": 3.5}


def test_cliques_are_the_largest_runs_within_the_critical_difference():
    found = ranking(list("abcd"), RNG.normal(size=(6, 4)))._replace(means=np.array([1.0, 1.5, 2.2, 4.0]), critical=1.0)
    assert found.cliques() == [(0, 1), (1, 2)]
    assert found._replace(critical=1.3).cliques() == [(0, 2)]
    assert found._replace(critical=0.1).cliques() == []


def test_class_of_most_bags_is_set_against_the_others():
    y, truth = np.array([0, 2, 2, 1]), np.array([0.0, 2.0, np.nan, 1.0])
    labels, instances = two_classes(y, truth)
    assert labels.tolist() == [0, 1, 1, 0]
    assert np.array_equal(instances, [0.0, 1.0, np.nan, 0.0], equal_nan=True)
    assert two_classes(np.array([[1, 0], [1, 1], [0, 0]]), None)[0].tolist() == [1, 1, 0]


def test_bags_of_a_large_set_are_drawn_with_the_shares_of_both_classes():
    y = (np.arange(5000) % 5 == 0).astype(int)
    chosen = some_bags(y, 0)
    assert len(np.unique(chosen)) == MOST_BAGS
    assert y[chosen].mean() == pytest.approx(0.2)


def test_standard_errors_of_one_fold_are_those_of_other_bags_held_out():
    random = np.random.default_rng(1)
    truth = np.repeat([0.0, 1.0], [50, 40])
    p = 1 / (1 + np.exp(-random.normal(2 * truth - 1, 1.5)))

    def measures(chosen):
        labels, q = truth[chosen] == 1, p[chosen]
        logs = np.log(np.where(labels, q, 1 - q))
        return ((q > 0.5) == labels).mean(), roc_auc_score(labels, q), logs.mean()

    drawn = [np.r_[random.choice(50, 50), 50 + random.choice(40, 40)] for _ in range(4000)]
    spread = np.std([measures(chosen) for chosen in drawn], axis=0)
    found = standard_errors(truth, p)
    assert [found[name] for name in ("accuracy", "auc", "log_likelihood")] == pytest.approx(spread, rel=0.06)


def test_error_of_the_auc_is_that_of_delong_and_others():
    above, below = np.array([0.9, 0.5, 0.8]), np.array([0.5, 0.1, 0.85, 0.3])
    pairs = [[1.0 if a > b else 0.5 if a == b else 0.0 for b in below] for a in above]
    rows, columns = ([np.mean(one) for one in of] for of in (pairs, list(zip(*pairs, strict=True))))
    expected = np.var(rows, ddof=1) / 3 + np.var(columns, ddof=1) / 4
    assert of_auc(above, below) ** 2 == pytest.approx(expected)


def test_errors_that_are_not_defined_are_missing():
    sure = standard_errors(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.2, 0.3]))
    assert np.isnan([sure["auc"], sure["log_likelihood"]]).all()
    assert np.isnan(list(standard_errors(np.array([1.0]), np.array([0.7])).values())).all()


def work_until(end):
    while time.process_time() < end:
        pass


def test_cell_that_takes_too_long_is_stopped():
    began = time.process_time()
    with pytest.raises(TooLongError, match=r"more than 0\.05 s"), alarm(0.05):
        work_until(began + 5)
    assert time.process_time() < began + 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small sets under the names of real ones."""
    found = tmp_path_factory.mktemp("data")
    for seed, name in enumerate(("musk1", "newsgroups_sci_med")):
        bags, y, truth = make_bags(20, (2, 4), random_state=seed)
        write_npz(found / f"{name}.npz", bags, y, truth)
    return found


def test_packed_set_has_float32_rows_and_the_same_bags(folder, tmp_path):
    main(["--data", str(folder), "--pack", str(tmp_path / "packed")])
    (source, _) = sources(tmp_path / "packed")
    bags, y, truth = ready(folder / "musk1.npz", source)
    assert bags.X.dtype == np.float32
    with np.load(tmp_path / "packed" / "musk1.npz") as arrays:
        assert np.array_equal(arrays["X"], bags.X)
        assert np.array_equal(arrays["y"], y)
        assert np.array_equal(arrays["instance_y"], truth)


def test_run_resumes_and_its_folder_makes_the_page(folder, tmp_path, capsys):
    arguments = ["--data", str(folder), "--out", str(tmp_path), "--folds", "2", "--only", "nsk,sil,citation-knn"]
    main(arguments)
    results = tmp_path / "where.jsonl"
    lines = results.read_text().splitlines()
    assert len(lines) == 2 * 3 * 2
    results.write_text("\n".join(lines[:5]) + "\n" + lines[5][:40])  # stopped while it wrote
    main(arguments)
    again = [json.loads(line) for line in results.read_text().splitlines()]
    assert [record["key"] for record in again[:5]] == [json.loads(line)["key"] for line in lines[:5]]
    assert sorted(record["key"] for record in again) == sorted(json.loads(line)["key"] for line in lines)
    page = tmp_path / "where.md"
    (tmp_path / "pictures").mkdir()
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nReading.\n")
    main(["--out", str(tmp_path), "--page", str(page)])
    text = page.read_text()
    assert text.startswith("# Title\n")
    assert text.endswith(f"{END}\n\nReading.\n")
    assert "2 data sets, 3 models, test folds measured of each set: 2; 12 fits." in text
    assert (tmp_path / "pictures" / "where.png").stat().st_size > 5000
    assert len((tmp_path / "where.csv").read_text().splitlines()) == 1 + 2 * 3


def test_only_folds_that_all_models_have_been_through_are_compared(tmp_path):
    def line(model, fold, auc, error=None):
        metrics = {"s": {f"bag {name}": auc for name in ("accuracy", "auc", "log_likelihood")}}
        key = f"where/s/{model}/0/{fold}"
        return json.dumps({"key": key, "fingerprint": "", "error": error, "metrics": metrics, "processor_seconds": 1})

    results = tmp_path / "where.jsonl"
    results.write_text("\n".join([line("a", 0, 0.5), line("a", 1, 0.9), line("b", 0, 0.7)]) + "\n")
    assert Results.read(results).means("auc").tolist() == [[0.5, 0.7]]
    results.write_text("\n".join([line("a", 0, 0.5), line("b", 0, 0.7, "Error: no")]) + "\n")
    found = Results.read(results)
    assert np.array_equal(found.means("auc"), [[0.5, np.nan]], equal_nan=True)
    assert found.complaints() == {("b", "no"): 1}


def test_one_fold_has_the_errors_of_its_bags_and_several_have_those_of_folds(tmp_path):
    def line(fold, auc):
        metrics = {"s": {f"bag {name}{kind}": auc for name in METRICS for kind in ("", " error")}}
        return json.dumps({"key": f"where/s/a/0/{fold}", "fingerprint": "", "error": None, "metrics": metrics})

    results = tmp_path / "where.jsonl"
    results.write_text(line(0, 0.5) + "\n")
    assert Results.read(results).error("s", "a", "auc") == 0.5
    results.write_text(line(0, 0.5) + "\n" + line(1, 0.7) + "\n")
    assert Results.read(results).error("s", "a", "auc") == pytest.approx(0.1)
