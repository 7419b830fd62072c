"""Means, errors and tests against scipy and by hand; what a page says of them."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.bench.summaries import made, summary_of
from tests.bench.tiny_table import tiny_table

from bagwise.bench.render import markdown_page
from bagwise.bench.summary import MEAN_ROW, paired_t_test, summarise


def test_means_and_standard_errors(values):
    entry = summary_of(values).entry("calm", "probit", "instance auc")
    assert entry.mean == pytest.approx(np.mean(values["calm", "probit"]))
    assert entry.error == pytest.approx(stats.sem(values["calm", "probit"]))
    assert (entry.n, entry.undefined) == (3, 0)
    assert entry.differences == pytest.approx([entry.mean - 0.75])


def test_undefined_values_are_left_out_and_counted():
    entry = summary_of({("calm", "probit"): [0.5, None, 0.7]}).entry("calm", "probit", "instance auc")
    assert (entry.mean, entry.n, entry.undefined) == (pytest.approx(0.6), 2, 1)
    assert summary_of({("calm", "probit"): [None]}).entry("calm", "probit", "instance auc") is None


def test_a_certainty_that_was_wrong_is_not_hidden():
    entry = summary_of({("calm", "probit"): [0.5, "-inf"]}).entry("calm", "probit", "instance auc")
    assert entry.mean == -math.inf


def test_the_mean_row_is_over_rows_and_compared_only_when_complete(values):
    full = summary_of(values).entry(MEAN_ROW, "probit", "instance auc")
    means = [np.mean(values[row, "probit"]) for row in ("calm", "rough")]
    assert full.mean == pytest.approx(np.mean(means))
    assert full.error == pytest.approx(stats.sem(means))
    assert [figure.value for figure in full.published] == [0.5]
    half = summary_of({key: value for key, value in values.items() if key[0] == "calm"})
    assert half.entry(MEAN_ROW, "probit", "instance auc").published == ()


def test_paired_t_test_is_scipys():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=10), rng.normal(0.4, 1, size=10)
    assert paired_t_test(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_the_corrected_test_is_the_formula_of_nadeau_and_bengio():
    d = np.array([0.1, 0.3, 0.2, 0.15, 0.05])
    t = d.mean() / math.sqrt(d.var(ddof=1) * (1 / 5 + 1 / 9))
    assert paired_t_test(d, overlap=1 / 9) == pytest.approx(2 * stats.t.sf(t, 4))
    assert paired_t_test(d, overlap=1 / 9) > paired_t_test(d)


def test_the_test_at_its_limits():
    assert paired_t_test(np.zeros(4)) == 1.0
    assert paired_t_test(np.full(4, 0.5)) == 0.0
    assert math.isnan(paired_t_test(np.array([0.5])))


def test_comparisons_count_rows():
    found = summary_of(
        {
            ("calm", "probit"): [0.9, 0.91, 0.92],
            ("calm", "small"): [0.5, 0.52, 0.51],
            ("rough", "probit"): [0.5, 0.9, 0.1],
            ("rough", "small"): [0.6, 0.6, 0.6],
        }
    ).comparisons()
    (one,) = [c for c in found if c.metric == "instance auc"]
    assert (one.one, one.other) == ("probit", "small")
    assert (one.higher, one.equal, one.lower) == (1, 0, 1)
    assert (one.wins, one.ties, one.losses) == (1, 1, 0)
    assert one.published is None
    assert math.isnan(one.wilcoxon)


def test_overlap_of_training_sets_is_test_over_training_bags():
    """Mean 0.25, spread 0.05, three folds: p = 0.03 with the overlap 6/12, p = 0.08 with 12/6."""
    values = {("calm", "probit"): [0.7, 0.75, 0.8], ("calm", "small"): [0.5, 0.5, 0.5]}
    (one,) = [c for c in summary_of(values).comparisons() if c.metric == "instance auc"]
    assert (one.corrected_wins, one.corrected_ties, one.corrected_losses) == (1, 0, 0)
    assert paired_t_test(np.array([0.2, 0.25, 0.3]), overlap=2.0) > 0.05


def test_wilcoxon_is_scipys():
    rng = np.random.default_rng(2)
    rows = [f"r{k}" for k in range(8)]
    values = {(row, model): rng.normal(size=4).tolist() for row in rows for model in ("probit", "small")}
    table = tiny_table()
    sets = tuple(type(table.sets[0])(row) for row in rows)
    (one,) = [c for c in summary_of(values, sets=sets).comparisons() if c.metric == "instance auc"]
    d = [np.mean(values[row, "probit"]) - np.mean(values[row, "small"]) for row in rows]
    assert one.wilcoxon == pytest.approx(stats.wilcoxon(d).pvalue)


def test_pooled_joins_folds_before_it_measures():
    truth, score = [[0, 1], [0, 1], [0, 1]], [[0.1, 0.2], [0.5, 0.6], [0.8, 0.9]]
    parts = [{"instance truth": t, "instance score": s} for t, s in zip(truth, score, strict=True)]
    records = made({("calm", "probit"): [1.0, 1.0, 1.0]}, scores={("calm", "probit"): parts})
    summary = summarise(tiny_table(), records, n_wanted=18)
    assert summary.pooled("calm", "probit", "instance auc") == pytest.approx(6 / 9)
    assert summary.pooled(MEAN_ROW, "probit", "instance auc") == pytest.approx(6 / 9)
    assert "± .000 (pooled .667)" in markdown_page([summary])
    incomplete = summarise(tiny_table(), records[:2], n_wanted=18)
    assert math.isnan(incomplete.pooled("calm", "probit", "instance auc"))


def test_costs_are_medians_of_seconds_and_numbers_of_warnings(values):
    probit, small = summary_of(values).costs()
    assert (probit.n_cells, probit.fit_seconds, probit.predict_seconds, probit.n_warned) == (6, 2.0, 0.5, 0)
    assert small.n_warned == 6
