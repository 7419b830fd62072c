"""How ``MIPLGP`` is fitted to candidate sets: rounds of a sparse or of an exact regression, one function per class."""

from typing import Any

import numpy as np
import torch

from bagwise import _validation as check
from bagwise.bag_models.dirichlet import CandidateEvidence
from bagwise.bags import Bags
from bagwise.gp.ground import make_ground
from bagwise.gp.kernels import make_kernel
from bagwise.inference.candidates.exact import ExactRounds, ExactSettings, exact_rounds
from bagwise.inference.candidates.sparse import Regression, SparseRounds
from bagwise.inference.kernel_learning.learn import STAGES, some_bags
from bagwise.inference.loop import Trace, Watch, iterate
from bagwise.models._base.estimator import check_device, check_dtype
from bagwise.models._base.learned_kernel import start_kernel

CHANGE = "change of the responsibilities"


def fit_candidates(model: Any, bags: Bags, stating: Bags, evidence: CandidateEvidence) -> None:
    """Fit by the solver of the model; ``evidence`` is that of the bags that state something."""
    infer = _exactly if model.solver_ == "exact" else _sparsely
    infer(model, bags, stating, evidence)


def _sparsely(model: Any, bags: Bags, stating: Bags, evidence: CandidateEvidence) -> None:
    features = model._make_features(bags, start_kernel(model, bags))
    engine = SparseRounds(features, stating, evidence, Regression(model._disambiguation(), model.approximation))
    if model._learns():
        everyone = np.ones(len(stating), dtype=bool)
        some = some_bags(stating, everyone, STAGES[0], np.random.RandomState(model.seed_))
        engine.learn(some, model.n_rounds, model.n_steps, model.learn_start)
    trace = _rounds(model, engine)
    fit = engine.finish()
    log_evidence = torch.tensor([fit.log_evidence], dtype=torch.float64)
    model._finish(engine.features, fit.posterior, model._rule(), trace, log_evidence)


def _exactly(model: Any, bags: Bags, stating: Bags, evidence: CandidateEvidence) -> None:
    device, dtype = check_device(model.device), check_dtype(model.dtype)
    model.seed_ = int(check.random_stream(model.random_state).randint(2**31 - 1))
    start = start_kernel(model, bags)
    lengthscale = model.lengthscale if start is model.kernel else None
    kernel = make_kernel(start, bags.n_features, lengthscale, dtype).to(device)
    ground = make_ground(
        bags, bias=model.bias, standardize=model.standardize, jitter=model.jitter, device=device, dtype=dtype
    )
    settings = ExactSettings(model._disambiguation(), model.rank, model.n_probes, model.seed_)
    engine = exact_rounds(kernel, ground, stating, evidence, settings, dtype)
    if model._learns():
        engine.learn(model.n_rounds, model.n_steps, model.learn_start)
    trace = _rounds(model, engine)
    features, posterior = engine.finish(ground.shift, ground.scale, ground.jitter)
    model._finish(features, posterior, model._rule(), trace, None)


def _rounds(model: Any, engine: SparseRounds | ExactRounds) -> Trace:
    watch = Watch(type(model).__name__, model.verbose, model.callback)
    return iterate(engine.round, name=CHANGE, max_iter=model.n_rounds, tol=model.tol, watch=watch)
