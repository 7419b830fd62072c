"""Chunks whose labelled bags are rows: joined, as a GPU has them, they lead to what single chunks lead to."""

import copy
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.problems import features_of, random_bags

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import count, log_potentials
from bagwise.gp import kernels
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference import bag_propagation, bags_as_rows
from bagwise.inference.bag_propagation import BagPropagation, pool_step
from bagwise.inference.bags_as_rows import JoinedPools, PooledChunks, labelled, rows_of_bags
from bagwise.inference.chunks import InMemory, OfColumn
from bagwise.inference.engines import Limits, by_bag_sites
from bagwise.inference.kernel_learning.by_bags import ByBags
from bagwise.inference.kernel_learning.rows import LearningRows
from bagwise.inference.loop import SILENT
from bagwise.inference.places import chunks_of

CPU, CUDA, NAN = torch.device("cpu"), torch.device("cuda"), np.nan
BAGS = random_bags(np.random.default_rng(3), 9, (1, 5))
LABELS = np.array([1.0, 0, 1, 0, 1, 0, 0, 1, 1])[:, None]
CHUNK_ROWS = 6
TABLE = 6  # a bag of the last chunk but one


# ---------------------------------------------------------------- problems


def labels_alone():
    return CountEvidence(LABELS, BAGS.sizes)


def some_missing():
    labels = LABELS.copy()
    labels[[1, 4, 5]] = NAN
    return CountEvidence(labels, BAGS.sizes)


def with_weights():
    return labels_alone().weighted(np.linspace(0.5, 3.0, len(BAGS)))


def with_noise():
    return CountEvidence(LABELS, BAGS.sizes, label_noise=0.1)


def two_columns():
    return CountEvidence(np.column_stack([LABELS, some_missing().labels[::-1]]), BAGS.sizes)


def with_tables():
    """A bag limits its count instead of having a label."""
    labels = LABELS.copy()
    labels[TABLE] = NAN
    by_table = np.isnan(labels[:, 0])
    table = log_potentials(count(np.zeros(len(BAGS), dtype=int), np.where(by_table, 1, BAGS.sizes)), BAGS.sizes)
    return CountEvidence(labels, BAGS.sizes, (table,), (by_table,))


STATED = [labels_alone, some_missing, with_weights, with_noise, two_columns, with_tables]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", CHUNK_ROWS)


@pytest.fixture
def join(monkeypatch):
    """From now on sweep over sites as on a GPU, so many rows together; the list that is returned holds who does so."""

    def joined(rows=1000):
        made = []
        monkeypatch.setattr(bags_as_rows, "_TOGETHER", rows)
        monkeypatch.setattr(
            bag_propagation, "rows_of_bags", lambda chunks, device: made.append(JoinedPools(chunks)) or made[-1]
        )
        return made

    return joined


def chunks(stated=labels_alone, dtype=torch.float64):
    """The chunks of the first label column."""
    made = chunks_of(features_of(BAGS, dtype=dtype), BAGS, ProbitCounts(stated()))
    assert len(made.chunks) > 3
    return made.through(OfColumn(0))


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


# ---------------------------------------------------------------- whole fits


def fitted(stated, curved):
    limits = Limits(500, 1e-4, SILENT)
    return by_bag_sites(features_of(BAGS), BAGS, stated(), limits, 0, curved=curved)


@pytest.mark.parametrize(
    ("stated", "curved", "rows"),
    [(labels_alone, False, 1000), (labels_alone, True, 4), *((stated, True, 1000) for stated in STATED)],
)
def test_a_fit_by_joined_rows_is_that_by_chunks(stated, curved, rows, join):
    expected = fitted(stated, curved)
    made = join(rows)
    found = fitted(stated, curved)
    assert made
    same(found.log_evidence, expected.log_evidence)
    same(found.posterior.mean, expected.posterior.mean)
    same(found.posterior.factors, expected.posterior.factors)


def judged(stated):
    """Values and gradients of a judge at a kernel and, from what it remembers, at another."""
    evidence = stated()
    made = kernels.trainable_kernel("rbf", 2, None, 2.0, False)
    features = features_of(BAGS, kernel=made, lengthscale=None, bias=1.0, n_inducing=5)
    kernel, inducing = copy.deepcopy(features.kernel), features.inducing.clone()
    rows = LearningRows(features, kernel, inducing, BAGS, ProbitCounts(evidence), CHUNK_ROWS)
    judge, block = ByBags(rows, torch.zeros(evidence.labels.shape[1]).double(), 0), KernelParameters(kernel, 2)
    answers = []
    for step in (0.0, 0.3):
        block.set(block.get() + step)
        block.clear()
        answers.append(np.r_[judge(), block.gradient()])
    return np.array(answers)


@pytest.mark.parametrize("stated", STATED)
def test_a_kernel_judged_by_joined_rows_has_the_value_and_gradient_of_chunks(stated, join):
    expected = judged(stated)
    made = join()
    np.testing.assert_allclose(judged(stated), expected, rtol=0, atol=1e-10)
    assert made
    assert np.abs(expected[:, 1:]).max() > 1e-3


# ---------------------------------------------------------------- what is joined


def pooled(stated=labels_alone, dtype=torch.float64):
    """Chunks that remember their bags as rows."""
    held = chunks(stated, dtype)
    BagPropagation(held, features_of(BAGS).n_columns, CPU, 0).step()
    return held


def seen_by(rows):
    """The chunks that a step is shown."""
    shown = []
    rows.sweep(lambda chunk, sites, _: (shown.append((chunk, sites)) or {}, sites), None)
    return shown


def test_all_rows_are_one_chunk_in_double_precision_and_chunks_get_their_own_sites_back():
    held = pooled(dtype=torch.float32)
    before = list(held.remembered)
    ((chunk, sites),) = seen_by(JoinedPools(held))
    assert chunk.design.phi.dtype == sites.tau.dtype == chunk.evidence.labels.dtype == torch.float64
    assert torch.equal(chunk.design.phi, torch.cat([one.chunk.design.phi for one in before]).double())
    assert torch.equal(chunk.evidence.labels[:, 0], torch.tensor(LABELS[:, 0]))
    for one, now in zip(before, held.remembered, strict=True):
        assert now.chunk is one.chunk
        for mine, expected in zip((*now.sites[:2], *now.sites.goal), (*one.sites[:2], *one.sites.goal), strict=True):
            assert torch.equal(mine, expected.double())


def test_chunks_with_tables_stay_alone_and_others_are_joined_within_the_limit(monkeypatch):
    held = pooled(with_tables)
    plain = [one.n_labelled == len(one.chunk.design.phi) for one in held.remembered]
    assert plain == [True, True, False, True]
    monkeypatch.setattr(bags_as_rows, "_TOGETHER", 1)
    assert len(seen_by(JoinedPools(held))) == len(plain)
    monkeypatch.setattr(bags_as_rows, "_TOGETHER", 1000)
    alone = [one.chunk for one, is_plain in zip(held.remembered, plain, strict=True) if not is_plain]
    shown = [chunk for chunk, _ in seen_by(JoinedPools(held))]
    assert all(any(chunk is one for chunk in shown) for one in alone)
    assert (len(alone), len(shown), len(plain)) == (1, 3, 4)


def test_rows_are_joined_anew_once_they_are_made_anew():
    held = pooled()
    rows = JoinedPools(held)
    first, again = seen_by(rows)[0][0], seen_by(rows)[0][0]
    assert again is first
    state = BagPropagation(held, features_of(BAGS).n_columns, CPU, 0)
    state.step()
    state.step()
    moved = seen_by(rows)[0][0]
    assert torch.equal(moved.design.phi, torch.cat([one.chunk.design.phi for one in held.remembered]))
    assert not torch.equal(moved.design.phi, first.design.phi)


def test_no_chunks_make_no_sums():
    assert JoinedPools(InMemory([])).sweep(pool_step, None) == {}


@pytest.mark.parametrize(
    ("device", "here", "kind"), [(CPU, True, PooledChunks), (CUDA, True, JoinedPools), (CUDA, False, PooledChunks)]
)
def test_rows_are_joined_on_a_gpu_of_this_process_alone(device, here, kind):
    assert type(rows_of_bags(SimpleNamespace(in_this_process=here), device)) is kind


# ---------------------------------------------------------------- which bags have a label


@pytest.mark.parametrize("stated", [labels_alone, some_missing])
def test_labels_counted_beforehand_are_those_that_are_there(stated):
    for chunk in chunks(stated).chunks:
        bags = labelled(chunk)
        assert bags.n_bags == int(bags.which.sum())
        assert (
            labelled(chunk._replace(evidence=dataclasses.replace(chunk.evidence, n_labelled=None))).n_bags
            == bags.n_bags
        )
        assert bags.all == (not torch.isnan(chunk.evidence.labels).any())
        assert torch.equal(bags.of(chunk.evidence.labels), chunk.evidence.labels[bags.which])
