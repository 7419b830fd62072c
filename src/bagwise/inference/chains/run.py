"""Running chains: burn-in, what is kept of every sweep, checkpoints, going on later."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bagwise._files import PathLike
from bagwise.exceptions import BagDataError, ModelFileError
from bagwise.gp.posterior import SamplePosterior, SparseSamplePosterior
from bagwise.inference.chains.diagnostics import Chains
from bagwise.inference.loop import Report, Trace, Watch, iterate
from bagwise.persistence import read_model, write_model

KEPT_DRAWS = 4000  # of v, per label column and all chains together; more sweeps than that are thinned evenly
CHECKPOINT_EVERY = 500  # sweeps


class Sampler(Protocol):
    """Chains side by side as columns: column k C + c is chain c of label k."""

    n_chains: int
    done: int  # sweeps made
    names: tuple[str, ...]  # of the sampler's own quantities worth watching, the log likelihood of the evidence first
    seen: Tensor  # (R, S) v at the start of the last sweep
    means: Tensor  # (R, S) expectation of v in the last sweep, given what was drawn in it

    @property
    def state(self) -> Tensor:
        """All that the next sweep needs, its random numbers apart."""

    def sweep(self) -> Report:
        """One step of every chain."""

    def watched(self) -> Tensor:
        """(quantities, S) those of ``names``, at ``seen``."""

    def posterior(self, weights: Tensor, means: Tensor) -> SamplePosterior | SparseSamplePosterior:
        """From ``seen`` and ``means`` of many sweeps, each (K, chains, draws, R)."""

    def fingerprint(self) -> bytes:
        """Two samplers with the same make the same chains."""

    def resume(self, state: Tensor, done: int) -> None:
        """Go on from the state after ``done`` sweeps."""


@dataclass(frozen=True)
class Monitor:
    """Scalars to watch: the sampler's own, the constant, and the latent values of some instances."""

    names: tuple[str, ...]
    rows: Tensor  # (J, R) features of the instances
    bias: float

    def of(self, sampler: Sampler) -> Tensor:
        """(quantities, S) at the v that the last sweep saw."""
        constant = [self.bias * sampler.seen[-1:]] if self.bias > 0 else []
        return torch.cat([sampler.watched(), *constant, self.rows @ sampler.seen])


class Kept(NamedTuple):
    """What one sweep leaves behind; v and w only of every ``thin``-th."""

    watched: Tensor
    weights: Tensor | None
    means: Tensor | None


class Length(NamedTuple):
    """How long to run: sweeps that are thrown away, sweeps that are used, chains side by side."""

    n_burn_in: int
    n_samples: int
    n_chains: int
    every: int = 1  # what the user wants to keep: the draws of every so many sweeps

    @property
    def thin(self) -> int:
        """Keep v and w of every so many sweeps."""
        return max(self.every, -(-self.n_chains * self.n_samples // KEPT_DRAWS))


@dataclass
class Record:
    """Everything drawn so far. ``position`` is the truth: what lies beyond it, after an interruption, is forgotten."""

    identity: str  # of the data, the settings and the random numbers
    n_burn_in: int
    thin: int
    state: Tensor  # of the sampler after the last sweep
    done: int = 0
    kept: list[Kept] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)

    def add(self, sampler: Sampler, monitor: Monitor, report: Report) -> None:
        """Keep what the last sweep of the sampler saw."""
        self.objectives.append(report.objective)
        used = sampler.done - self.n_burn_in
        if used > 0:
            whole = (used - 1) % self.thin == 0
            seen, means = (sampler.seen, sampler.means) if whole else (None, None)
            self.kept.append(Kept(monitor.of(sampler), seen, means))
        self.state, self.done = sampler.state, sampler.done

    def settle(self) -> None:
        """Forget half a sweep."""
        del self.kept[max(0, self.done - self.n_burn_in) :]
        del self.objectives[self.done :]

    def posterior(self, sampler: Sampler) -> SamplePosterior | SparseSamplePosterior:
        """The draws as a posterior."""
        whole = [sweep for sweep in self.kept if sweep.weights is not None]
        weights = [sweep.weights for sweep in whole if sweep.weights is not None]
        means = [sweep.means for sweep in whole if sweep.means is not None]
        return sampler.posterior(_by_chain(weights, sampler.n_chains), _by_chain(means, sampler.n_chains))

    def chains(self, names: tuple[str, ...], n_chains: int, labels: tuple[str, ...] | None) -> Chains:
        """The watched scalars."""
        values = torch.stack([sweep.watched for sweep in self.kept]).cpu()  # (n, Q, K C)
        by_label = values.reshape(*values.shape[:2], -1, n_chains).permute(2, 1, 3, 0)
        return Chains(names, by_label.contiguous().numpy(), labels)


def _by_chain(sweeps: list[Tensor], n_chains: int) -> Tensor:
    """n tensors (R, K C) as one (K, C, n, R)."""
    stacked = torch.stack(sweeps)
    return stacked.reshape(*stacked.shape[:2], -1, n_chains).permute(2, 3, 0, 1).contiguous()


def identity_of(sampler: Sampler, evidence: bytes, settings: tuple[object, ...]) -> str:
    """Two runs with the same identity make the same chains."""
    digest = hashlib.sha256(evidence + repr(settings).encode())
    digest.update(sampler.fingerprint())
    return digest.hexdigest()


def run_chains(
    sampler: Sampler, record: Record, monitor: Monitor, length: Length, watch: Watch, checkpoint: PathLike | None = None
) -> Trace:
    """Sweep until the record is as long as asked for, or until interrupted; the trace is that of the whole record."""
    sampler.resume(record.state, record.done)

    def step() -> Report:
        report = sampler.sweep()
        record.add(sampler, monitor, report)
        if checkpoint is not None and record.done % CHECKPOINT_EVERY == 0:
            write_checkpoint(checkpoint, record)
        return report

    remaining = max(0, length.n_burn_in + length.n_samples - record.done)
    trace = iterate(step, name="log likelihood", max_iter=remaining, tol=0.0, watch=watch)
    record.settle()
    if checkpoint is not None:
        write_checkpoint(checkpoint, record)
    values = np.array(record.objectives)
    return Trace("log likelihood", values, np.ones(len(values)), False, trace.interrupted)


# ---------------------------------------------------------------- checkpoint files


def write_checkpoint(path: PathLike, record: Record) -> None:
    """The record as a file that appears whole or not at all."""
    description = {
        "checkpoint": record.identity,
        "n_burn_in": record.n_burn_in,
        "thin": record.thin,
        "done": record.done,
    }
    tensors = {"state": record.state, "objectives": torch.tensor(record.objectives, dtype=torch.float64)}
    if record.kept:
        tensors["watched"] = torch.stack([sweep.watched for sweep in record.kept])
        for name in ("weights", "means"):
            tensors[f"kept.{name}"] = torch.stack([getattr(s, name) for s in record.kept if s.weights is not None])
    write_model(path, description, tensors)


def read_checkpoint(path: PathLike, fresh: Record) -> Record:
    """The record in the file, if there is one; it must have been made by a run of the same identity as ``fresh``."""
    if not Path(path).exists():
        return fresh
    description, tensors = read_model(path)
    if description.get("checkpoint") != fresh.identity:
        raise BagDataError(
            f"checkpoint={str(path)!r} belongs to another run: the bags, what is known of them, the settings or the "
            "random numbers are not the same. Use another file, or remove this one; to go on in another session, "
            "random_state must be a number."
        )
    try:
        device, thin = fresh.state.device, int(description["thin"])
        watched = tensors.get("watched", torch.empty(0))
        kept = []
        for number, values in enumerate(watched):
            own = [tensors[f"kept.{name}"][number // thin].to(device) for name in ("weights", "means")]
            kept.append(Kept(values.to(device), *(own if number % thin == 0 else (None, None))))
        state, objectives = tensors["state"].to(device), tensors["objectives"].tolist()
        return Record(fresh.identity, fresh.n_burn_in, thin, state, int(description["done"]), kept, objectives)
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise ModelFileError(f"{path}: the checkpoint is incomplete or damaged ({error!r}).") from error
