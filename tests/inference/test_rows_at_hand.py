"""How often a fit reads the rows of a file."""

import numpy as np
import pytest
from tests.sources.stored_rows import Source

import bagwise
from bagwise import BagGP, Bags
from bagwise.gp import inducing
from bagwise.inference.kernel_learning import learn
from bagwise.inference.rows_at_hand import gather_rows, rows_at_hand
from bagwise.sources import rows

SIZES = np.full(80, 5)


def problem():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((SIZES.sum(), 2)), np.arange(80) % 2
    X[::5, 0] += 4.0 * y
    return Source(X), y


def rows_read(source):
    return sum(stop - start for start, stop in source.reads)


def fitted(bags, y, **settings):
    return BagGP(inference="bag-ep", size_effect=False, n_inducing=6, leftovers="none", random_state=0, **settings).fit(
        bags, y
    )


@pytest.fixture
def three_searches(monkeypatch):
    monkeypatch.setattr(learn, "STAGES", (50, 100))
    monkeypatch.setattr(learn, "LEAST_BAGS", 10)
    monkeypatch.setattr(inducing, "_KMEANS_ROWS", 40)


@pytest.mark.parametrize("settings", [{"learn": False}, {"learn_rows": 300}, {}], ids=str)
def test_a_fit_reads_rows_once_where_they_fit_into_memory(three_searches, settings):
    source, y = problem()
    bags = Bags.from_source(source, SIZES)
    model = fitted(bags, y, **settings)
    assert rows_read(source) == bags.n_instances
    in_memory = fitted(Bags(source.values, np.repeat(np.arange(80), SIZES)), y, **settings)
    np.testing.assert_allclose(model.posterior_.mean, in_memory.posterior_.mean, atol=1e-10)
    fitted(bags, y, **settings)
    assert rows_read(source) == 2 * bags.n_instances  # nothing is held after the fit


def test_rows_of_all_searches_are_read_together_where_no_more_fit(three_searches, monkeypatch):
    monkeypatch.setattr(rows, "_BLOCK", 5)  # as many as a bag has
    source, y = problem()
    bags = Bags.from_source(source, SIZES)
    searched = 60 * bags.X.nbytes // 80
    with bagwise.scale.within(memory=4 * searched):
        fitted(bags, y, learn_rows=300)
    assert rows_read(source) == 2 * bags.n_instances + 300  # for moments and features, and for the searches


def test_the_largest_choice_that_fits_is_held_until_the_end():
    source, _ = problem()
    bags = Bags.from_source(source, SIZES)
    row = bags.X.nbytes // bags.n_instances
    with bagwise.scale.within(memory=4 * 50 * row), rows_at_hand(bags):
        gather_rows(bags, [np.arange(11), np.arange(0, 20, 2), np.arange(2)])
        before = len(source.reads)
        np.testing.assert_array_equal(
            np.asarray(bags[np.arange(0, 20, 2)].X), source.values[:100].reshape(10, 2, 5, 2)[:, 0].reshape(50, 2)
        )
        assert len(source.reads) == before
    np.asarray(bags[[0]].X)
    assert len(source.reads) == before + 1


def test_nothing_is_held_where_no_memory_is_allowed():
    source, _ = problem()
    bags = Bags.from_source(source, SIZES)
    with bagwise.scale.within(memory=0), rows_at_hand(bags):
        gather_rows(bags, [np.arange(3)])
        assert source.reads == []
