"""The log evidence of expectation propagation over classes (theory section 16), as a judge of kernels.

As with labels (``by_bags.py``) rows are made at q(v) and q(v) of rows: x = (rows, offsets, sites) is a fixed point of a
map Φ(x, θ), and the total derivative of the evidence E is λᵀ ∂Φ/∂θ with λ = ∂E/∂x + (∂Φ/∂x)ᵀ λ, (14.1). All columns are
in one point, because a bag ties them together.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bagwise.exceptions import NumericalError
from bagwise.inference.bag_propagation import BagRows
from bagwise.inference.chunks import Chunk
from bagwise.inference.class_propagation import (
    ClassBelief,
    ClassPoint,
    ClassPropagation,
    belief_of,
    class_log_evidence,
    linearised_classes,
    matched_sites,
    seen_from,
)
from bagwise.inference.kernel_learning.rows import RowsHere
from bagwise.inference.loop import iterate
from bagwise.numerics.gmres import gmres

_ROUNDS, _TOLERANCE = 60, 2e-3
_ADJOINT_TOLERANCE, _ADJOINT_STEPS = 1e-2, 40
_KEPT = 200_000  # rows × classes of which the backward pass keeps what it needs; of more it is computed again


class ByClasses:
    """Judges the kernel of some rows whose bags state candidates."""

    def __init__(self, rows: RowsHere, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._last: tuple[ClassBelief, ClassPoint] | None = None

    def __call__(self) -> float:
        """log Z at the present kernel; its gradient is left in the parameters."""
        chunks = self._rows.chunks()
        engine = self._settled(chunks)
        adjoint = _adjoint_of(engine, chunks)
        draws, first = engine.belief.draws(engine.points), 0
        for chunk in self._rows.traced():
            own = slice(first, first + len(chunk.evidence.table))
            found = linearised_classes(chunk.design, draws)
            pulled = (adjoint.rows[:, own] * found.rows).sum() + (adjoint.offset[:, own] * found.offset).sum()
            torch.autograd.backward(pulled)
            first = own.stop
        return float(engine.log_evidence)

    def _settled(self, chunks: Sequence[Chunk]) -> ClassPropagation:
        """Rows and sites at the present kernel, from the last ones or, should that fail, from the prior."""
        engine = None if self._last is None else self._settle(chunks, self._last)
        if engine is None:
            engine = self._settle(chunks, None)
        if engine is None:
            raise NumericalError("expectation propagation does not settle at this kernel.")
        self._last = engine.belief, engine.point
        return engine

    @torch.no_grad()
    def _settle(self, chunks: Sequence[Chunk], start: tuple[ClassBelief, ClassPoint] | None) -> ClassPropagation | None:
        """From a point, or from the prior (None); None where it does not settle."""
        try:
            engine = ClassPropagation(chunks, self._rows.n_columns, self._rows.device, self._seed)
            if start is not None:
                engine.resume(*start)
            trace = iterate(engine.step, name="log evidence", max_iter=_ROUNDS, tol=_TOLERANCE)
        except NumericalError:
            return None
        if trace.interrupted:
            raise KeyboardInterrupt
        engine.finish()
        return engine if trace.converged and engine.plausible() else None


def _adjoint_of(engine: ClassPropagation, chunks: Sequence[Chunk]) -> ClassPoint:
    """λ of (14.1)."""
    x = ClassPoint(*(part.detach().clone().requires_grad_() for part in engine.point))
    with torch.enable_grad():
        belief = belief_of(x)
        seen = seen_from(x, belief, engine.table)
        slope = torch.autograd.grad(class_log_evidence(x, belief, seen), x, retain_graph=True)
        image = (*_looked(chunks, belief.draws(engine.points)), *matched_sites(seen))

    def product(vector: Tensor) -> Tensor:
        back = torch.autograd.grad(image, x, grad_outputs=_parts(vector, x), retain_graph=True)
        return vector - _flat(back)

    return ClassPoint(*_parts(gmres(product, _flat(slope), _ADJOINT_TOLERANCE, _ADJOINT_STEPS), x))


def _looked(chunks: Sequence[Chunk], draws: Tensor) -> BagRows:
    """The bags of all chunks as rows at these draws."""
    again = sum(len(chunk.design.phi) for chunk in chunks) * len(draws) > _KEPT
    parts = [
        BagRows(*checkpoint(linearised_classes, chunk.design, draws, use_reentrant=False))
        if again
        else linearised_classes(chunk.design, draws)
        for chunk in chunks
    ]
    return BagRows(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))


def _flat(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def _parts(vector: Tensor, like: ClassPoint) -> list[Tensor]:
    cut = torch.split(vector, [part.numel() for part in like])
    return [new.reshape(part.shape) for new, part in zip(cut, like, strict=True)]
