"""The mean field where the columns of a bag belong together: one class out of many (theory sections 1.1 and 16)."""

from typing import Any

import torch
from torch import Tensor

from bagwise.inference.chunks import Chunk, Chunks, Sums
from bagwise.inference.lbfgs import ColumnwiseLBFGS
from bagwise.inference.mean_field import MeanField


class ClassMeanField(MeanField):
    """As ``MeanField``, but with one bound for all columns, so they are climbed together, as one long column.

    At zero all columns are alike, and where bags exclude few classes the bound is flat there: the climb begins where a
    regression of the shares of the candidates on the features leads.
    """

    def __init__(self, chunks: Chunks, observed: Tensor) -> None:
        self._shape = (-1, observed.shape[1])
        super().__init__(chunks, observed)
        start = self._factors[0].T @ self._regressed(chunks)
        self._climb = ColumnwiseLBFGS(self._evaluate, start.reshape(-1, 1))

    def _regressed(self, chunks: Chunks) -> Tensor:
        """(I + ΦᵀΦ)⁻¹ Φᵀ t for t = 1 for the only candidate of a bag, less for one of several, −1 elsewhere."""
        pull = chunks.sweep(shares_step, None)["pull"]
        return torch.cholesky_solve(pull, self._factors[0])

    def _evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = super()._evaluate(w)
        return value.sum()[None], gradient.reshape(-1, 1)

    def _mean(self, w: Tensor) -> Tensor:
        return super()._mean(w.reshape(self._shape))


def shares_step(chunk: Chunk, remembered: Any, shared: None) -> tuple[Sums, Any]:
    """Φᵀ t, (R, K)."""
    table = chunk.evidence.table
    stated = table.any(1, keepdim=True)
    share = table[:, :-1] / table.sum(1, keepdim=True).clamp(min=1)
    target = torch.where(stated, 2.0 * share - 1.0, torch.zeros_like(share)).to(chunk.design.phi.dtype)
    return {"pull": chunk.design.phi.T @ chunk.design.segments.spread(target)}, remembered
