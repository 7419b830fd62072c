"""The log evidence of expectation propagation over classes (theory section 16), as a judge of kernels.

As with labels (``by_bags.py``) rows are made at q(v) and q(v) of rows: x = (rows, offsets, sites) is a fixed point of a
map Φ(x, θ), and the total derivative of the log evidence E(x, θ) is ∂E/∂θ + λᵀ ∂Φ/∂θ, λ = ∂E/∂x + (∂Φ/∂x)ᵀ λ, (14.1).
(E depends on θ itself by the features of single instances.) All columns are in one point, because a bag ties them
together.

Rounds may end early: up to second order in x* − x the log evidence at the fixed point x* is E(x) + λᵀ(Φ(x) − x).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bagwise.exceptions import NumericalError
from bagwise.inference.bags_as_rows import BagRows
from bagwise.inference.chunks import Chunk
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.inference.class_sites import (
    ClassBelief,
    ClassGround,
    ClassPoint,
    bags_seen,
    belief_of,
    class_log_evidence,
    instances_seen,
    matched_sites,
    totals_of,
)
from bagwise.inference.kernel_learning.rows import RowsHere
from bagwise.inference.loop import iterate
from bagwise.numerics.gmres import gmres

_ROUNDS, _TOLERANCE = 60, 1e-2
_ADJOINT_TOLERANCE, _ADJOINT_STEPS = 5e-2, 40
_KEPT = 200_000  # rows × classes of which the backward pass keeps what it needs; of more it is computed again


class ByClasses:
    """Judges the kernel of some rows whose bags state candidates."""

    def __init__(self, rows: RowsHere, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._last: tuple[ClassBelief, ClassPoint] | None = None

    def __call__(self) -> float:
        """log Z at the present kernel; its gradient is left in the parameters."""
        engine = self._settled(self._rows.chunks())
        adjoint = _adjoint_of(engine)
        ground = replace(engine.ground, designs=[chunk.design for chunk in self._rows.traced()])
        value, image = _mapped(engine.point, ground, engine)
        total = value + _flat(adjoint) @ (_flat(image) - _flat(engine.point))
        torch.autograd.backward(total)
        return float(total.detach())

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


def _adjoint_of(engine: ClassPropagation) -> ClassPoint:
    """λ of (14.1)."""
    x = ClassPoint(*(part.detach().clone().requires_grad_() for part in engine.point))
    with torch.enable_grad():
        value, image = _mapped(x, engine.ground, engine)
        slope = torch.autograd.grad(value, x, retain_graph=True)

    def product(vector: Tensor) -> Tensor:
        back = torch.autograd.grad(image, x, grad_outputs=_parts(vector, x), retain_graph=True)
        return vector - _flat(back)

    return ClassPoint(*_parts(gmres(product, _flat(slope), _ADJOINT_TOLERANCE, _ADJOINT_STEPS), x))


def _mapped(x: ClassPoint, ground: ClassGround, engine: ClassPropagation) -> tuple[Tensor, ClassPoint]:
    """E(x, θ) and Φ(x, θ): rows at q(v), and the sites that match."""
    call = _made_again if x.own_tau.numel() > _KEPT else _kept
    belief = belief_of(x, ground, call(totals_of, x, ground))
    bags, instances = bags_seen(x, belief, ground, engine.table), call(instances_seen, x, belief, ground)
    rows: BagRows = call(ground.looked_at, belief.draws(engine.points))
    image = ClassPoint(rows.rows, rows.offset, *matched_sites(bags), *matched_sites(instances))
    return class_log_evidence(x, belief, bags, instances), image


def _kept(made: Callable[..., Any], *given: Any) -> Any:
    return made(*given)


def _made_again(made: Callable[..., Any], *given: Any) -> Any:
    return checkpoint(made, *given, use_reentrant=False)


def _flat(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def _parts(vector: Tensor, like: ClassPoint) -> list[Tensor]:
    cut = torch.split(vector, [part.numel() for part in like])
    return [new.reshape(part.shape) for new, part in zip(cut, like, strict=True)]
