"""The log evidence (4.4) of expectation propagation with messages to single instances, as a judge of kernels.

The mean-field bound charges for every instance as if it had been observed and drives the kernel to zero; this evidence
does not. At settled messages its total derivative is one more sum over the chunks (theory section 14). Messages are
kept from one kernel to the next. Label columns settle one after the other: one that takes many sweeps, or short steps,
takes them alone.
"""

from typing import Any

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.inference.chunks import Chunk, HeldChunks, OfColumn, Told
from bagwise.inference.expectation_propagation import ExpectationPropagation, Sites, pull_back
from bagwise.inference.kernel_learning.rows import LearningRows
from bagwise.inference.loop import iterate

SWEEPS, TOLERANCE = 600, 1e-5
TOLERANCE_PINNED = 1e-3  # messages about pinned counts settle slowly; the evidence is right long before they do …
_AT_REST = 0.1  # … if it moved by fewer nats in the last sweep: messages that never settle look settled now and then


class ByMessages:
    """Judges the kernel of some rows, once for every label column."""

    def __init__(self, rows: LearningRows, ceiling: Tensor, tolerance: float = TOLERANCE) -> None:
        self._rows, self._ceiling, self._tolerance = rows, ceiling, tolerance
        self._remembered: dict[int, list[Any]] = {}

    def __call__(self) -> float:
        """log Z at the present kernel, summed over label columns; its gradient is left in the parameters."""
        chunks, total = self._rows.chunks(), 0.0
        for column in range(len(self._ceiling)):
            engine, held = self._settled(chunks, column)
            self._rows.differentiate(_pulled, engine.belief, remembered=list(held.remembered), further=column > 0)
            self._remembered[column] = held.for_others()
            total += float(engine.log_evidence.sum())
        return total

    def _settled(self, chunks: HeldChunks, column: int) -> tuple[ExpectationPropagation, HeldChunks]:
        """Messages at the present kernel, from the last ones or, should that fail, from nothing."""
        last = self._remembered.get(column)
        for start in (last, None) if last is not None else (None,):
            held = chunks.through(OfColumn(column))
            if start is not None:
                held.remembered = list(start)
            engine = self._settle(held, column, resume=start is not None)
            if engine is not None:
                return engine, held
        raise NumericalError("expectation propagation does not settle at this kernel.")

    @torch.no_grad()
    def _settle(self, held: HeldChunks, column: int, *, resume: bool) -> ExpectationPropagation | None:
        try:
            engine = ExpectationPropagation(held, self._rows.n_columns, 1, self._rows.device)
            if resume:
                engine.resume()
            trace = iterate(engine.step, name="log evidence", max_iter=SWEEPS, tol=self._tolerance)
            engine.finish()
        except NumericalError:
            return None
        if trace.interrupted:
            raise KeyboardInterrupt
        at_rest = abs(float(engine.log_evidence.sum()) - trace.values[-1]) < _AT_REST
        return engine if trace.converged and at_rest and engine.plausible(self._ceiling[[column]]) else None


def _pulled(chunk: Chunk, sites: Sites, told: Told) -> Tensor:
    return pull_back(chunk, sites.tau, sites.nu, told.shared)
