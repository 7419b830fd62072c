"""How well the chains of a sampler have mixed: a table of R-hat, effective sample sizes and Monte Carlo errors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.inference.chains import mixing

LARGEST_R_HAT = 1.01
SMALLEST_ESS = 400

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Chains:
    """Scalars that were watched in every sweep after the burn-in."""

    names: tuple[str, ...]
    values: Floats  # (K, quantities, chains, sweeps), K label columns
    labels: tuple[str, ...] | None = None  # names of the label columns where there are several

    def __len__(self) -> int:
        return int(self.values.shape[-1])

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per quantity (and label): mean, sd, mcse_mean, r_hat, ess_bulk, ess_tail."""
        columns = statistics(self.values)
        if self.labels is None:
            return pd.DataFrame({key: part[0] for key, part in columns.items()}, index=pd.Index(self.names))
        index = pd.MultiIndex.from_product([self.labels, self.names], names=["label", "quantity"])
        return pd.DataFrame({key: part.reshape(-1) for key, part in columns.items()}, index=index)

    @property
    def converged(self) -> bool:
        """Whether every quantity has R-hat at most 1.01 and a bulk effective sample size of at least 400."""
        return bool((self.table["r_hat"] <= LARGEST_R_HAT).all() and (self.table["ess_bulk"] >= SMALLEST_ESS).all())


def statistics(values: Floats) -> dict[str, Floats]:
    """Of chains (…, chains, sweeps)."""
    return {
        "mean": values.mean((-2, -1)),
        "sd": _deviation(values),
        "mcse_mean": mixing.mcse_mean(values),
        "r_hat": mixing.r_hat(values),
        "ess_bulk": mixing.ess_bulk(values),
        "ess_tail": mixing.ess_tail(values),
    }


def _deviation(values: Floats) -> Floats:
    several = values.shape[-2] * values.shape[-1] > 1
    deviation: Floats = values.std((-2, -1), ddof=1) if several else np.full(values.shape[:-2], np.nan)
    return deviation


def warn_if_unmixed(chains: Chains) -> None:
    """One ConvergenceWarning that names the worst quantity, if the chains cannot be trusted yet."""
    table = chains.table
    if chains.converged:
        return
    ratio, size = table["r_hat"].to_numpy(), table["ess_bulk"].to_numpy()
    badness = np.maximum((ratio - 1.0) / (LARGEST_R_HAT - 1.0), SMALLEST_ESS / size)
    worst = int(np.argmax(np.where(np.isnan(badness), np.inf, badness)))
    bad = int((~(ratio <= LARGEST_R_HAT) | ~(size >= SMALLEST_ESS)).sum())
    name = table.index[worst]
    warn_user(
        f"the chains have not mixed: {' of '.join(reversed(name)) if isinstance(name, tuple) else name} has R-hat "
        f"{ratio[worst]:.3f} (at most {LARGEST_R_HAT} is good) and a bulk effective sample size of {size[worst]:.0f} "
        f"(at least {SMALLEST_ESS}), the worst of {bad} such quantities among {len(table)}. Raise n_samples (with "
        "warm_start=True the chains go on from where they are); diagnostics_ has the whole table.",
        ConvergenceWarning,
    )
