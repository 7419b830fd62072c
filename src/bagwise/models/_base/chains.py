"""The part of an estimator that runs chains: its settings, the record of what was drawn, going on with it later."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from bagwise import _validation as check
from bagwise._files import check_writable, is_stream
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features
from bagwise.gp.posterior import SamplePosterior, SparseSamplePosterior
from bagwise.inference.chains.diagnostics import Chains, warn_if_unmixed
from bagwise.inference.chains.gibbs import Gibbs
from bagwise.inference.chains.run import Length, Monitor, Record, Sampler, identity_of, read_checkpoint, run_chains
from bagwise.inference.loop import Trace, Watch
from bagwise.inference.places import chunks_of

_WATCHED_LATENTS = 50


@dataclass(frozen=True)
class ChainSettings:
    """How long to run, whether to go on with the last chains, and where to leave checkpoints."""

    length: Length
    scale_step: bool
    warm_start: bool
    checkpoint: Any

    @classmethod
    def of(cls, estimator: Any, every: int = 1) -> "ChainSettings":
        """The settings of an estimator, checked."""
        if estimator.checkpoint is not None:
            _check_checkpoint(estimator.checkpoint)
        length = Length(
            check.check_count("n_burn_in", estimator.n_burn_in, least=0),
            check.check_count("n_samples", estimator.n_samples),
            check.check_count("n_chains", estimator.n_chains),
            every,
        )
        scale_step, warm_start = (
            check.check_flag(name, getattr(estimator, name)) for name in ("scale_step", "warm_start")
        )
        return cls(length, scale_step, warm_start, estimator.checkpoint)


def _check_checkpoint(path: Any) -> None:
    """A file that can be written, and read again."""
    if not isinstance(path, str | os.PathLike) or is_stream(path):
        raise BagDataError(f"checkpoint={path!r}: expected the name of a file, or None.")
    check_writable(path)


class Sampled(NamedTuple):
    """What chains leave behind."""

    posterior: SamplePosterior | SparseSamplePosterior
    trace: Trace
    chains: Chains


class ChainRunner:
    """Runs chains and remembers them, so that the next fit can go on where this one stopped."""

    def __init__(self) -> None:
        self._record: Record | None = None

    def goes_on(self, settings: ChainSettings) -> bool:
        """Whether the next run continues the last one."""
        return settings.warm_start and self._record is not None

    def forget(self) -> None:
        """The next run begins anew."""
        self._record = None

    def run(
        self,
        sampler: Sampler,
        settings: ChainSettings,
        monitor: Monitor,
        identity: str,
        watch: Watch,
        labels: tuple[str, ...] | None,
    ) -> Sampled:
        """Sweep until the record is as long as asked for; warns if the chains have not mixed."""
        record = self._record = self._start(sampler, settings, identity)
        trace = run_chains(sampler, record, monitor, settings.length, watch, settings.checkpoint)
        if not record.kept:
            raise KeyboardInterrupt(
                f"fit was interrupted during the burn-in, after {record.done} sweeps: there are no draws yet. "
                "With warm_start=True the next fit goes on from here."
            )
        chains = record.chains(monitor.names, settings.length.n_chains, labels)
        if not trace.interrupted:
            warn_if_unmixed(chains)
        judged = replace(trace, converged=chains.converged and not trace.interrupted)
        return Sampled(record.posterior(sampler), judged, chains)

    def _start(self, sampler: Sampler, settings: ChainSettings, identity: str) -> Record:
        length = settings.length
        fresh = Record(identity, length.n_burn_in, length.thin, sampler.state)
        if not self.goes_on(settings):
            return fresh if settings.checkpoint is None else read_checkpoint(settings.checkpoint, fresh)
        if self._record is None or self._record.identity != identity:
            raise BagDataError(
                "warm_start=True goes on with the chains of the last fit, but the bags, what is known of them or "
                "the settings of the sampler have changed; only n_samples may. Use warm_start=False to begin anew."
            )
        return self._record


def gibbs_sampler(
    features: Features,
    bags: Bags,
    evidence: CountEvidence,
    settings: ChainSettings,
    seed: int,
    *,
    integrated: bool = True,
    scheme: str = "block",
) -> Gibbs:
    """The sampler of probit instances under evidence about counts, all chains side by side."""
    return Gibbs(
        chunks_of(features, bags, ProbitCounts(evidence), integrated=integrated),
        torch.as_tensor(evidence.observed(), device=features.device),
        n_rows=bags.n_instances,
        n_chains=settings.length.n_chains,
        seed=seed,
        scheme=scheme,
        rescale=settings.scale_step,
    )


def runner_of(estimator: Any) -> ChainRunner:
    """The runner that an estimator holds, from its first fit on."""
    runner: ChainRunner = estimator.__dict__.setdefault("_runner", ChainRunner())
    return runner


def forget_chains(estimator: Any) -> None:
    """Leave nothing of the chains of an earlier fit."""
    runner_of(estimator).forget()
    estimator.chains_ = None


def features_to_sample(estimator: Any, settings: ChainSettings, make: Callable[[], Features]) -> Features:
    """Those of the last fit where its chains are continued; otherwise new ones, and the old chains are forgotten."""
    if runner_of(estimator).goes_on(settings):
        kept: Features = estimator.features_
        return kept
    forget_chains(estimator)
    return make()


def sample(
    estimator: Any,
    settings: ChainSettings,
    sampler: Sampler,
    features: Features,
    bags: Bags,
    evidence: CountEvidence | ClassEvidence,
    how: tuple[object, ...],
) -> tuple[SamplePosterior | SparseSamplePosterior, Trace]:
    """Run the chains of an estimator, or go on with them; ``how`` are settings that make other chains."""
    own = (settings.length.n_burn_in, settings.length.n_chains, *how, settings.scale_step)
    identity = identity_of(sampler, evidence.identity(), own)
    estimator.features_ = features
    estimator.__dict__.pop("posterior_", None)  # of an earlier fit; whatever stops this one, it must not answer for it
    watch = Watch(type(estimator).__name__, estimator.verbose, estimator.callback)
    runner = runner_of(estimator)
    monitor = _monitor(features, bags, sampler.names, estimator.seed_)
    found = runner.run(sampler, settings, monitor, identity, watch, estimator._column_names())
    estimator.chains_ = found.chains
    return found.posterior, found.trace


def _monitor(features: Features, bags: Bags, own: tuple[str, ...], seed: int) -> Monitor:
    """The quantities of ``diagnostics_``."""
    random = np.random.default_rng(seed)
    count = min(_WATCHED_LATENTS, bags.n_instances)
    chosen = np.sort(random.choice(bags.n_instances, count, replace=False))
    owners, place = np.unique(bags.index[chosen], return_inverse=True)
    some = bags[owners]
    rows = some.offsets[place] + chosen - bags.offsets[bags.index[chosen]]
    phi = features.transform(some)[0][rows]
    constant = ("mean",) if features.bias > 0 else ()
    names = (*own, *constant, *(f"latent[{row}]" for row in chosen))
    return Monitor(names, torch.as_tensor(phi, dtype=torch.float64, device=features.device), features.bias)
