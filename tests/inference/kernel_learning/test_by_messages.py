"""Learning the kernel from bag evidence: value and gradient, what it gains, what it leaves alone."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from gpytorch import kernels as gpk
from tests.inference.kernel_learning.slopes import slopes
from tests.problems import features_of

from bagwise import BagGP, Bags, ConvergenceWarning
from bagwise.bag_models.counts import ProbitCounts
from bagwise.datasets import make_bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp import kernels
from bagwise.gp.features import assemble
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.chunks import in_memory
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.kernel_learning import by_messages, learn, search
from bagwise.inference.kernel_learning.by_bags import ByBags
from bagwise.inference.kernel_learning.by_messages import ByMessages
from bagwise.inference.kernel_learning.learn import TensorBlock, learn_features
from bagwise.inference.kernel_learning.rows import LearningRows
from bagwise.inference.kernel_learning.settings import LearningSettings
from bagwise.inference.loop import SILENT, iterate


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(30, 5, 2, random_state=0)
    return bags, y


def start(bags, kernel="rbf", **changes):
    """Features as BagGP makes them before it learns."""
    made = kernels.trainable_kernel(kernel, bags.n_features, None, 8.0, False)
    return features_of(bags, kernel=made, lengthscale=None, bias=5.0, n_inducing=10, **changes)


def evidence_of(bags, y):
    return CountEvidence(np.asarray(y, dtype=float).reshape(len(bags), -1), bags.sizes)


def settings(n_restarts=1, learn_inducing=False, seed=0):
    return LearningSettings(n_restarts, learn_inducing, np.random.RandomState(seed))


def judge(features, bags, y, kernel=None, inducing=None, chunk=10_000):
    """Messages that judge the features' own kernel and inducing inputs, or others."""
    evidence = evidence_of(bags, y)
    own = features.kernel if kernel is None else kernel, features.inducing if inducing is None else inducing
    rows = LearningRows(features, *own, bags, ProbitCounts(evidence), chunk)
    return ByMessages(rows, torch.as_tensor(evidence.ceiling()), by_messages.TOLERANCE)


def learned(bags, y, features=None, **changes):
    return learn_features(features or start(bags), bags, evidence_of(bags, y), settings(**changes), SILENT)


def log_evidence(features, bags, y):
    state = ExpectationPropagation(
        in_memory(features, bags, ProbitCounts(evidence_of(bags, y))), features.n_columns, 1, CPU
    )
    assert iterate(state.step, name="log evidence", max_iter=1000, tol=1e-10).converged
    state.finish()
    return state.log_evidence.item()


CPU = torch.device("cpu")


# ---------------------------------------------------------------- value and gradient


@pytest.mark.parametrize(
    ("kernel", "chunk"),
    [("rbf", 10_000), *((kernel, 40) for kernel in ("rbf", "matern52", "exponential", "linear", "rbf+linear"))],
)
def test_value_and_gradient_are_those_of_a_new_inference_at_every_kernel(problem, kernel, chunk, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(by_messages, "TOLERANCE", 1e-11)
    monkeypatch.setattr(by_messages, "SWEEPS", 2000)
    features = start(bags, kernel)
    own, inducing = copy.deepcopy(features.kernel), features.inducing.clone()
    blocks = [KernelParameters(own, 2), TensorBlock(inducing)]
    objective = judge(features, bags, y, own, inducing, chunk)

    def again():
        parts = {"bias": features.bias, "jitter": features.jitter, "origin": ""}
        return log_evidence(assemble(own, inducing.detach(), features.shift, features.scale, **parts), bags, y)

    assert objective() == pytest.approx(again(), abs=1e-8)
    np.testing.assert_allclose(*slopes(blocks, again, 1e-4), rtol=0, atol=2e-5)


@pytest.mark.parametrize("chunk", [10_000, 40])
def test_several_labels_are_judged_together(problem, chunk):
    bags, y = problem
    both = np.column_stack([y, 1 - y]).astype(float)
    features = start(bags)

    def judged(columns):
        kernel = copy.deepcopy(features.kernel)
        found = judge(features, bags, columns, kernel, features.inducing.clone(), chunk)
        values = [found(), found()]  # the second time from the messages of the first
        assert values[0] == pytest.approx(values[1], abs=1e-4)
        return np.array([values[1], *KernelParameters(kernel, 2).gradient()])

    together, *alone = (judged(columns) for columns in (both, both[:, [0]], both[:, [1]]))
    np.testing.assert_allclose(together, sum(alone), atol=1e-4)


# ---------------------------------------------------------------- what it gains


def test_log_evidence_of_the_learned_kernel_is_higher_than_that_of_the_start(problem):
    bags, y = problem
    features = start(bags)
    before = copy.deepcopy(features.kernel.state_dict())
    result = learned(bags, y, features)
    assert result.trace.converged
    assert log_evidence(result.features, bags, y) > log_evidence(features, bags, y) + 0.5
    for name, value in features.kernel.state_dict().items():
        assert torch.equal(value, before[name]), "the given features were changed"


def test_the_trace_ends_at_the_evidence_and_prior_of_what_was_found(problem):
    bags, y = problem
    result = learned(bags, y)
    parameters = KernelParameters(result.features.kernel, 2)
    away = (parameters.get() - parameters.centre) / parameters.spread
    expected = log_evidence(result.features, bags, y) - 0.5 * away @ away
    assert result.trace.values[-1] == pytest.approx(expected, abs=1e-3)


def test_learned_inducing_inputs_raise_the_evidence(problem):
    bags, y = problem
    features = features_of(
        bags,
        kernel=start(bags).kernel,
        lengthscale=None,
        bias=5.0,
        inducing=bags.X[:3],
        random=np.random.RandomState(0),
    )
    fixed, moved = (learned(bags, y, features, learn_inducing=free).features for free in (False, True))
    assert log_evidence(moved, bags, y) > log_evidence(fixed, bags, y) + 0.5
    assert torch.equal(fixed.inducing, features.inducing)
    assert not torch.equal(moved.inducing, features.inducing)
    assert moved.origin == "given, then learned"


def test_an_irrelevant_feature_is_found_irrelevant():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    bags = Bags(X, np.repeat(np.arange(80), 5))
    y = np.maximum.reduceat(X[:, 1] > 1.0, bags.offsets[:-1]).astype(int)
    model = BagGP(ard=True, n_inducing=20, random_state=0).fit(bags, y)
    assert model.relevance_.sum() == pytest.approx(1.0)
    assert model.relevance_[1] > 0.9
    assert model.relevance_[[0, 2]].max() < 0.05
    assert model.log_evidence_ > BagGP(n_inducing=20, random_state=0).fit(bags, y).log_evidence_


def test_more_restarts_never_lower_what_is_reached(problem):
    bags, y = problem
    once, often = (learned(bags, y, n_restarts=n).trace for n in (1, 3))
    assert often.values[-1] >= once.values[-1]
    assert len(often) > len(once)


# ---------------------------------------------------------------- what it leaves alone


def test_without_learning_everything_stays(problem):
    bags, y = problem
    kernel = gpk.ScaleKernel(gpk.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 3.0, 0.7
    model = BagGP(learn=False, kernel=kernel, random_state=0).fit(bags, y)
    assert model.kernel_.outputscale.item() == kernel.outputscale.item()
    assert model.kernel_.base_kernel.lengthscale.item() == kernel.base_kernel.lengthscale.item()
    assert model.learning_trace_ is None


def test_learning_does_not_change_the_kernel_it_was_given(problem):
    bags, y = problem
    kernel = gpk.ScaleKernel(gpk.RBFKernel()).double()
    before = copy.deepcopy(kernel.state_dict())
    model = BagGP(kernel=kernel, n_inducing=10, random_state=0).fit(bags, y)
    for name, value in kernel.state_dict().items():
        assert torch.equal(value, before[name])
    assert model.kernel_.outputscale.item() != pytest.approx(kernel.outputscale.item(), rel=1e-3)


def test_frozen_parameters_stay(problem):
    bags, y = problem
    kernel = gpk.ScaleKernel(gpk.RBFKernel()).double()
    kernel.base_kernel.lengthscale = 1.7
    kernel.base_kernel.raw_lengthscale.requires_grad_(False)
    model = BagGP(kernel=kernel, n_inducing=10, random_state=0).fit(bags, y)
    assert model.kernel_.base_kernel.lengthscale.item() == kernel.base_kernel.lengthscale.item()
    assert model.kernel_.outputscale.item() != pytest.approx(kernel.outputscale.item(), rel=1e-3)


def test_a_kernel_without_free_parameters_is_taken_as_it_is(problem):
    bags, y = problem
    kernel = gpk.RBFKernel().double()
    kernel.raw_lengthscale.requires_grad_(False)
    model = BagGP(kernel=kernel, n_inducing=10, random_state=0).fit(bags, y)
    assert model.learning_trace_ is None
    same = BagGP(kernel=kernel, n_inducing=10, random_state=0, learn=False).fit(bags, y)
    np.testing.assert_array_equal(model.predict_proba(bags), same.predict_proba(bags))


def test_the_same_random_state_learns_the_same(problem):
    bags, y = problem
    found = [BagGP(n_inducing=10, n_restarts=2, random_state=seed).fit(bags, y) for seed in (3, 3, 4)]
    values = [model.kernel_.outputscale.item() for model in found]
    assert values[0] == values[1] != values[2]
    np.testing.assert_array_equal(found[0].learning_trace_.values, found[1].learning_trace_.values)


# ---------------------------------------------------------------- many instances


def sizes_seen(monkeypatch):
    """The bags that learning looks at."""
    seen = []
    original = learn.judge_of

    def remember(some, settings):
        seen.append(some.bags)
        assert len(some.evidence.labels) == len(some.bags)
        return original(some, settings)

    monkeypatch.setattr(learn, "judge_of", remember)
    return seen


def test_few_instances_are_all_learned_from(problem, monkeypatch):
    bags, y = problem
    seen = sizes_seen(monkeypatch)
    some = y.astype(float)
    some[4:7] = np.nan
    learned(bags, some)
    assert seen[0].ids == tuple(name for b, name in enumerate(bags.ids) if not 4 <= b < 7)


def test_of_many_instances_a_part_is_learned_from_and_all_are_inferred_on(problem, monkeypatch):
    bags, y = problem
    seen = sizes_seen(monkeypatch)
    monkeypatch.setattr(learn, "LEAST_BAGS", 2)
    model = BagGP(n_inducing=10, learn_rows=60, random_state=0).fit(bags, y)
    assert [some.n_instances for some in seen] == [60]
    assert len(set(seen[0].ids)) == 12
    everything = log_evidence(model.features_, bags, y)
    assert model.log_evidence_ == pytest.approx(everything, abs=1e-4)


# ---------------------------------------------------------------- when it fails


def test_where_no_kernel_can_be_judged_the_given_one_stays_with_a_warning(problem, monkeypatch):
    bags, y = problem

    def fails(self):
        raise NumericalError("nowhere")

    for judge_of_kernels in (ByMessages, ByBags):
        monkeypatch.setattr(judge_of_kernels, "__call__", fails)
    with pytest.warns(ConvergenceWarning, match="could be evaluated nowhere, so the kernel stays as given") as caught:
        model = BagGP(n_inducing=10, random_state=0).fit(bags, y)
    assert caught[0].filename == __file__
    assert model.kernel_.outputscale.item() == pytest.approx(8.0, rel=1e-9)
    assert model.kernel_.base_kernel.lengthscale.item() == pytest.approx(np.sqrt(2.0), rel=1e-9)
    assert not model.learning_trace_.converged
    assert model.score(bags, y) > 0.6


def test_where_messages_can_judge_no_kernel_one_site_per_bag_does(problem, monkeypatch):
    bags, y = problem

    def fails(self):
        raise NumericalError("nowhere")

    monkeypatch.setattr(ByMessages, "__call__", fails)
    model = BagGP(n_inducing=10, random_state=0).fit(bags, y)
    assert model.learning_trace_.converged
    assert model.kernel_.outputscale.item() != pytest.approx(8.0, rel=1e-3)


def test_a_search_that_does_not_settle_keeps_the_best_with_a_warning(problem, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(search, "_MOST_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match=r"stopped after \d+ evaluations before it settled; the best"):
        model = BagGP(n_inducing=10, random_state=0).fit(bags, y)
    monkeypatch.undo()
    assert (
        model.log_evidence_
        > BagGP(n_inducing=10, random_state=0, kernel=start(bags).kernel, learn=False).fit(bags, y).log_evidence_
    )


def test_messages_that_do_not_settle_refuse_the_kernel(problem, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(by_messages, "SWEEPS", 2)
    features = start(bags)
    objective = judge(features, bags, y)
    with pytest.raises(NumericalError, match="does not settle at this kernel"):
        objective()


def test_messages_that_look_settled_while_their_log_evidence_moves_refuse_the_kernel(problem, monkeypatch):
    """Messages that go round in circles come within any tolerance for a sweep now and then."""
    bags, y = problem
    stopped_at_once = partial(iterate, max_iter=600, name="log evidence", tol=np.inf)
    monkeypatch.setattr(by_messages, "iterate", lambda step, **settings: stopped_at_once(step))
    with pytest.raises(NumericalError, match="does not settle at this kernel"):
        judge(start(bags), bags, y)()
    monkeypatch.setattr(by_messages, "_AT_REST", np.inf)
    assert np.isfinite(judge(start(bags), bags, y)())


def test_messages_of_the_last_kernel_are_dropped_where_they_do_not_fit_the_next(problem):
    """From a kernel of small variance to one of large: the old messages may not even be possible."""
    bags, y = problem
    features = start(bags)
    kernel = copy.deepcopy(features.kernel)
    objective = judge(features, bags, y, kernel)
    fresh = []
    for variance in (0.5, 30.0, 2.0):
        kernel.outputscale = variance
        fresh.append(objective() - judge(features, bags, y, kernel)())
    np.testing.assert_allclose(fresh, 0.0, atol=1e-4)


def test_interruption_inside_an_inference_ends_the_search_with_the_best_kernel(problem, monkeypatch):
    bags, y = problem
    sweeps = {"n": 0}
    original = ExpectationPropagation.step

    def step(self):
        sweeps["n"] += 1
        if sweeps["n"] == 80:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(ExpectationPropagation, "step", step)
    result = learned(bags, y)
    assert result.trace.interrupted
    assert sweeps["n"] == 80, "the search went on after it was interrupted"
    assert np.isfinite(result.trace.values).any()
    assert torch.isfinite(result.features.lower).all()
