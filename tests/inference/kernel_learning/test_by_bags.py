"""The evidence of one site per bag as a judge of kernels: value and gradient against inferences from scratch."""

import copy
import functools

import numpy as np
import pytest
import torch
from tests.inference.kernel_learning.slopes import slopes
from tests.problems import features_of, random_bags, random_labels

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp import kernels
from bagwise.gp.features import reassembled
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference import engines
from bagwise.inference.engines import Limits, by_bag_sites, by_messages
from bagwise.inference.kernel_learning import by_bags
from bagwise.inference.kernel_learning import by_messages as messages
from bagwise.inference.kernel_learning.by_bags import ByBags
from bagwise.inference.kernel_learning.by_messages import ByMessages
from bagwise.inference.kernel_learning.learn import TensorBlock
from bagwise.inference.kernel_learning.rows import LearningRows
from bagwise.inference.kernel_learning.search import EvidenceSearch, unsettled
from bagwise.inference.loop import SILENT

SEED = 5
STEP = 1e-4


@pytest.fixture
def accurate(monkeypatch):
    """Settle far enough for differences to be taken."""
    for name, value in {"TOLERANCE": 1e-10, "ROUNDS": 1000, "_ADJOINT_TOLERANCE": 1e-9}.items():
        monkeypatch.setattr(by_bags, name, value)
    for name, value in {"TOLERANCE": 1e-11, "SWEEPS": 5000}.items():
        monkeypatch.setattr(messages, name, value)


class Case:
    """Bags with labels, a kernel to be moved, and both ways to its evidence."""

    def __init__(
        self, kernel="rbf", sizes=(1, 7), n_labels=1, sized=False, noise=0.0, chunk_rows=8192, ard=False, pieces=0
    ):
        self.pieces = pieces
        rng = np.random.default_rng(1)
        self.bags = random_bags(rng, 8, sizes)
        y = np.column_stack([random_labels(rng, self.bags) for _ in range(n_labels)])
        y[5, 0] = np.nan
        self.evidence = CountEvidence(y, self.bags.sizes, label_noise=noise)
        made = kernels.trainable_kernel(kernel, 2, None, 2.0, ard)
        features = features_of(self.bags, kernel=made, lengthscale=None, bias=1.0, n_inducing=5)
        self.features = features.with_sizes(self.bags.sizes) if sized else features
        self.kernel, self.inducing = copy.deepcopy(features.kernel), features.inducing.clone()
        model = ProbitCounts(self.evidence, pieces=pieces)
        self.rows = LearningRows(self.features, self.kernel, self.inducing, self.bags, model, chunk_rows)
        self.blocks = [KernelParameters(self.kernel, 2), TensorBlock(self.inducing)]
        self.ceiling = torch.zeros(n_labels, dtype=torch.float64)

    def anew(self, by_bag=True):
        """The log evidence of an inference from scratch at the present kernel."""
        features = reassembled(self.features, kernel=self.kernel, inducing=self.inducing.detach())
        limits = Limits(5000, 1e-10, SILENT)
        with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(engines, "PIECES", self.pieces)
            if by_bag:
                return by_bag_sites(features, self.bags, self.evidence, limits, SEED).log_evidence.sum().item()
            return by_messages(features, self.bags, self.evidence, limits).log_evidence.sum().item()


CASES = {
    "rbf": {},
    "with sizes": {"sized": True},
    "linear": {"kernel": "linear"},
    "two columns and noise": {"n_labels": 2, "noise": 0.1},
    "two columns with sizes, in chunks": {"n_labels": 2, "sized": True, "chunk_rows": 12},
    "negative bags in pieces": {"pieces": 8, "sized": True},
    "two columns in pieces and in chunks": {"pieces": 6, "n_labels": 2, "chunk_rows": 12},
    "one lengthscale per feature, in more chunks than are kept": {"ard": True, "chunk_rows": 4},
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_of_bag_sites_are_those_of_inferences_from_scratch(name, accurate):
    case = Case(**CASES[name])
    judge = ByBags(case.rows, case.ceiling, SEED)
    assert judge() == pytest.approx(case.anew(), abs=1e-6)
    np.testing.assert_allclose(*slopes(case.blocks, case.anew, STEP), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["rbf", "with sizes", "two columns with sizes, in chunks", "linear"])
def test_value_and_gradient_of_messages_are_those_of_inferences_from_scratch(name, accurate):
    case = Case(**CASES[name], **({} if "sizes" in CASES[name] else {"sizes": (1, 4)}))
    judge = ByMessages(case.rows, case.ceiling, 1e-11)
    anew = functools.partial(case.anew, by_bag=False)
    assert judge() == pytest.approx(anew(), abs=1e-6)
    np.testing.assert_allclose(*slopes(case.blocks, anew, STEP), rtol=1e-3, atol=1e-5)


def test_default_accuracy_of_the_judge_is_a_twentieth_of_a_nat_and_a_tenth_of_the_gradient(monkeypatch):
    rough, exact = Case(sized=True), Case(sized=True)
    value = ByBags(rough.rows, rough.ceiling, SEED)()
    for name, setting in {"TOLERANCE": 1e-10, "ROUNDS": 1000, "_ADJOINT_TOLERANCE": 1e-9}.items():
        monkeypatch.setattr(by_bags, name, setting)
    assert value == pytest.approx(ByBags(exact.rows, exact.ceiling, SEED)(), abs=by_bags.ROUGH)
    gradient, expected = (case.blocks[0].gradient() for case in (rough, exact))
    assert np.linalg.norm(gradient - expected) < 0.1 * np.linalg.norm(expected)


def test_a_judge_that_remembers_gives_the_values_of_one_that_does_not(accurate):
    case = Case(sized=True)
    judge, block = ByBags(case.rows, case.ceiling, SEED), case.blocks[0]
    judge()
    block.set(block.get() + 0.4)
    block.clear()
    value, gradient = judge(), block.gradient()
    block.clear()
    assert value == pytest.approx(ByBags(case.rows, case.ceiling, SEED)(), abs=1e-6)
    np.testing.assert_allclose(gradient, block.gradient(), rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------- what has not settled


@pytest.mark.parametrize(
    "judge_of", [lambda case: ByBags(case.rows, case.ceiling, SEED), lambda case: ByMessages(case.rows, case.ceiling)]
)
def test_an_evidence_that_has_not_settled_is_an_error_and_not_a_value(judge_of, monkeypatch):
    monkeypatch.setattr(by_bags, "ROUNDS", 1)
    monkeypatch.setattr(messages, "SWEEPS", 1)
    case = Case()
    with pytest.raises(NumericalError, match="does not settle"):
        judge_of(case)()
    assert not any(block.gradient().any() for block in case.blocks)


@pytest.mark.parametrize("judge_of", [ByBags, ByMessages])
def test_an_evidence_above_the_highest_possible_is_an_error(judge_of):
    case = Case()
    extra = (SEED,) if judge_of is ByBags else ()
    with pytest.raises(NumericalError):
        judge_of(case.rows, torch.full((1,), -1e3, dtype=torch.float64), *extra)()


def test_a_search_whose_evidence_never_settles_does_not_call_itself_converged(monkeypatch):
    monkeypatch.setattr(by_bags, "ROUNDS", 1)
    case = Case()
    before = case.blocks[0].get()
    search = EvidenceSearch(case.blocks[:1], ByBags(case.rows, case.ceiling, SEED), by_bags.ROUGH)
    trace = search.run(1, 20, np.random.RandomState(0), SILENT)
    assert not trace.converged
    assert "could be evaluated nowhere" in unsettled(trace)
    np.testing.assert_array_equal(case.blocks[0].get(), before)


def test_a_search_that_ends_among_failures_keeps_its_best_and_does_not_call_itself_converged():
    case = Case()
    block, calls = case.blocks[0], []
    inner = ByBags(case.rows, case.ceiling, SEED)

    def judge():
        calls.append(block.get())
        if len(calls) > 2:
            raise NumericalError("does not settle")
        return inner()

    trace = EvidenceSearch([block], judge).run(1, 5, np.random.RandomState(0), SILENT)
    assert not trace.converged
    assert any(np.array_equal(block.get(), seen) for seen in calls[:2])
