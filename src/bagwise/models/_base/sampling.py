"""What estimators that can run chains share: fitting by Gibbs sampling, diagnostics, Monte Carlo errors."""

import warnings
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch

from bagwise import _validation as check
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features
from bagwise.gp.posterior import SamplePosterior, SparseSamplePosterior
from bagwise.inference.chains.diagnostics import Chains, warn_if_unmixed
from bagwise.inference.chains.gibbs import Gibbs
from bagwise.inference.chains.prediction_error import PredictionError, prediction_error
from bagwise.inference.chains.run import Length, Monitor, Record, Sampler, identity_of, read_checkpoint, run_chains
from bagwise.inference.chunks import in_memory
from bagwise.inference.loop import Trace, Watch
from bagwise.models._base.estimator import BagClassifier

_WATCHED_LATENTS = 50


class SampledClassifier(BagClassifier):
    """A ``BagClassifier`` that may have been fitted by ``inference="gibbs"``.

    ``chains_`` then holds what was watched in every sweep, ``diagnostics_`` the table made of it. Fitted otherwise it
    has neither.
    """

    chains_: Chains | None
    _record: Record | None = None

    # ------------------------------------------------------------ answers

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """R-hat, bulk and tail effective sample size, Monte Carlo error of every watched quantity.

        The log likelihood of the evidence, |v|, the mean (where there is a bias) and up to fifty latent values φᵀv of
        random training instances (named by their row in ``bags.X``).
        """
        return self._sampled().table.copy()

    def predict_error(self, bags: Any) -> PredictionError:
        """Monte Carlo standard errors of the probabilities, ``.bags`` (B,) and ``.instances`` (N,), or with K columns.

        What finite chains leave uncertain about ``predict_proba`` and ``predict_instance_proba``, not how uncertain
        the model is.
        """
        self._sampled()
        error = prediction_error(self.features_, self.posterior_, self._check_bags(bags))
        return error if self._several() else PredictionError(error.bags[:, 0], error.instances[:, 0])

    def to_arviz(self) -> Any:
        """The watched quantities and the kept draws of v for ArviZ (which must be installed).

        An ``arviz.InferenceData``; from ArviZ 1.0 on, which no longer has that class, an ``xarray.DataTree``. v is
        thinned (``posterior_``), so it stands in a group of its own, ``posterior_weights``.
        """
        chains = self._sampled()
        watched, weights = np.moveaxis(chains.values, 0, -1), self.posterior_.weights.cpu().numpy()
        names = ("evidence_log_likelihood", *chains.names[1:])  # ArviZ keeps "log_likelihood" for another thing
        named = dict(zip(names, watched if self._several() else watched[..., 0], strict=True))
        v = np.moveaxis(weights, 0, -1) if self._several() else weights[0]
        return for_arviz({"posterior": named, "posterior_weights": {"v": v}})

    def _sampled(self) -> Chains:
        chains: Chains | None = getattr(self, "chains_", None)
        if chains is None:
            raise AttributeError(f"this {type(self).__name__} was not fitted with inference='gibbs': it has no chains.")
        return chains

    # ------------------------------------------------------------ fitting

    def _check_sampler(self) -> Length:
        for name in ("scale_step", "warm_start"):
            check.check_flag(name, getattr(self, name))
        if (
            self.checkpoint is not None
            and not isinstance(self.checkpoint, str)
            and not hasattr(self.checkpoint, "__fspath__")
        ):
            raise BagDataError(f"checkpoint={self.checkpoint!r}: expected the name of a file, or None.")
        return Length(
            check.check_count("n_burn_in", self.n_burn_in, least=0),
            check.check_count("n_samples", self.n_samples),
            check.check_count("n_chains", self.n_chains),
        )

    def _forget_chains(self) -> None:
        self._record, self.chains_ = None, None

    def _features_to_sample(self, bags: Bags) -> Features:
        """Those of the last fit if its chains are to go on, new ones otherwise."""
        if self._going_on():
            return self.features_
        self._forget_chains()
        return self._make_features(bags)

    def _going_on(self) -> bool:
        """Whether ``fit`` continues the chains of the last one."""
        return bool(self.warm_start) and self._record is not None

    def _sample(
        self, features: Features, bags: Bags, evidence: CountEvidence, *, noise: str = "exact", scheme: str = "block"
    ) -> tuple[SamplePosterior | SparseSamplePosterior, Trace]:
        """Run the chains, or go on with them; warns if they have not mixed."""
        gibbs = Gibbs(
            in_memory(features, bags, ProbitCounts(evidence), integrated=noise == "exact"),
            torch.as_tensor(evidence.observed(), device=features.device),
            n_rows=bags.n_instances,
            n_chains=self._check_sampler().n_chains,
            seed=self.seed_,
            scheme=scheme,
            rescale=self.scale_step,
        )
        return self._run(gibbs, features, bags, evidence, (noise, scheme))

    def _run(
        self, sampler: Sampler, features: Features, bags: Bags, evidence: CountEvidence, how: tuple[object, ...]
    ) -> tuple[SamplePosterior | SparseSamplePosterior, Trace]:
        """Sweep, with a record that can be gone on with; ``how`` are settings that make other chains."""
        length = self._check_sampler()
        monitor = _monitor(features, bags, sampler.names, self.seed_)
        record = self._start(sampler, evidence, length, how)
        self._record, self.features_ = record, features
        self.__dict__.pop("posterior_", None)  # of an earlier fit; whatever stops this one, it must not answer for it
        watch = Watch(type(self).__name__, self.verbose, self.callback)
        trace = run_chains(sampler, record, monitor, length, watch, self.checkpoint)
        if not record.kept:
            raise KeyboardInterrupt(
                f"fit was interrupted during the burn-in, after {record.done} sweeps: there are no draws yet. "
                "With warm_start=True the next fit goes on from here."
            )
        self.chains_ = record.chains(monitor.names, length.n_chains, self.label_names_)
        if not trace.interrupted:
            warn_if_unmixed(self.chains_)
        return record.posterior(sampler), replace(trace, converged=self.chains_.converged and not trace.interrupted)

    def _start(self, sampler: Sampler, evidence: CountEvidence, length: Length, how: tuple[object, ...]) -> Record:
        settings = (length.n_burn_in, length.n_chains, *how, self.scale_step)
        identity = identity_of(sampler, evidence.identity(), settings)
        fresh = Record(identity, length.n_burn_in, length.thin, sampler.state)
        if self._going_on():
            if self._record is None or self._record.identity != identity:
                raise BagDataError(
                    "warm_start=True goes on with the chains of the last fit, but the bags, what is known of them or "
                    "the settings of the sampler have changed; only n_samples may. Use warm_start=False to begin anew."
                )
            return self._record
        return fresh if self.checkpoint is None else read_checkpoint(self.checkpoint, fresh)


def for_arviz(groups: dict[str, dict[str, Any]]) -> Any:
    """Groups of named draws, as the installed version of ArviZ wants them."""
    if find_spec("arviz") is None:
        raise ImportError("to_arviz needs ArviZ: pip install 'bagwise[arviz]'.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)  # said once a day
        import arviz
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups)
    return arviz.InferenceData(**{name: arviz.dict_to_dataset(draws) for name, draws in groups.items()})


def _monitor(features: Features, bags: Bags, own: tuple[str, ...], seed: int) -> Monitor:
    """The quantities of ``diagnostics_``."""
    random = np.random.default_rng(seed)
    count = min(_WATCHED_LATENTS, bags.n_instances)
    chosen = np.sort(random.choice(bags.n_instances, count, replace=False))
    phi, _ = features.transform(bags.X[chosen])
    constant = ("mean",) if features.bias > 0 else ()
    names = (*own, *constant, *(f"latent[{row}]" for row in chosen))
    return Monitor(names, torch.as_tensor(phi, dtype=torch.float64, device=features.device), features.bias)
