"""Laplace's approximation around the mode of Σ ℓ(Φ v) + ½|v|² (theory section 6): one mode finder, one gradient.

    S(v) = loss(Φ v) + ½ |v|²,   ∇S = Φᵀ loss'(Φ v) + v,   A = I + Φᵀ H Φ                               (6.1), (6.2)
    log evidence = −S(v̂) − ½ log det A                                                                  (6.3), (6.5)

A need not be positive definite for soft-max losses: Newton's step then uses the absolute values of its eigenvalues, and
its determinant and inverse are taken after lifting eigenvalues to a floor (projection onto the positive cone).
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.inference.loop import SILENT, Report, Trace, Watch, iterate
from bagwise.numerics.linalg import cholesky, logdet, solve_factor

FLOOR = 0.5  # smallest eigenvalue that A is left with, where nobody says otherwise
_STEEPEST = 1e-3  # smallest |eigenvalue| that Newton's step divides by
_ARMIJO, _HALVINGS = 1e-4, 40
_NOISE = 1e-12  # a promised decrease below this part of S is rounding: take the step as it is


class Loss(Protocol):
    """What bags say about latent values F = Φ v."""

    def value(self, F: Tensor) -> Tensor:
        """The loss."""

    def slope(self, F: Tensor) -> Tensor:
        """Its gradient in F."""

    def curvature(self, phi: Tensor, F: Tensor) -> Tensor:
        """Φᵀ H Φ."""


class SecondOrder(NamedTuple):
    """S, ∇S and A at some v."""

    height: float
    gradient: Tensor
    precision: Tensor


class Objective(Protocol):
    """S as a function of v, whoever adds it up."""

    def height(self, v: Tensor) -> float:
        """S(v)."""

    def second_order(self, v: Tensor) -> SecondOrder:
        """S, ∇S and A at v."""


class OfRows:
    """S of rows Φ in memory."""

    def __init__(self, loss: Loss, phi: Tensor) -> None:
        self._loss, self._phi = loss, phi

    def height(self, v: Tensor) -> float:
        """S(v)."""
        return float(self._loss.value(self._phi @ v) + 0.5 * v @ v)

    def second_order(self, v: Tensor) -> SecondOrder:
        """S, ∇S and A at v."""
        F = self._phi @ v
        gradient = self._phi.T @ self._loss.slope(F) + v
        return SecondOrder(self.height(v), gradient, precision(self._loss, self._phi, F))


class ModeLimits(NamedTuple):
    """When to stop, and who looks on."""

    max_iter: int = 200
    tol: float = 1e-8
    watch: Watch = SILENT


class Mode(NamedTuple):
    """A minimum of S and how it was found."""

    v: Tensor
    height: float  # S there
    trace: Trace


_EAGER = ModeLimits()


class Newton:
    """Newton's method with modified eigenvalues and Armijo's rule; ``step`` is for ``iterate``."""

    def __init__(self, objective: Objective, start: Tensor) -> None:
        self._objective, self.v = objective, start

    def step(self) -> Report:
        """One step downhill; reports −S before it and the largest entry of the gradient."""
        height, gradient, curvature = self._objective.second_order(self.v)
        self.v = self._search(height, gradient, -_safe_solve(curvature, gradient))
        return Report(-height, float(gradient.abs().max()))

    def _search(self, height: float, gradient: Tensor, direction: Tensor) -> Tensor:
        promise = float(gradient @ direction)
        if -promise <= _NOISE * (1.0 + abs(height)):
            return self.v + direction
        length = 1.0
        for _ in range(_HALVINGS):
            there = self.v + length * direction
            if self._objective.height(there) <= height + _ARMIJO * length * promise:
                return there
            length *= 0.5
        return self.v


def find_mode(loss: Loss, phi: Tensor, starts: list[Tensor], limits: ModeLimits = _EAGER) -> Mode:
    """The lowest minimum of S reached from the starts, of rows in memory."""
    return lowest_mode(OfRows(loss, phi), starts, limits)


def lowest_mode(objective: Objective, starts: list[Tensor], limits: ModeLimits = _EAGER) -> Mode:
    """The lowest minimum of S reached from the starts."""
    found = []
    with torch.no_grad():
        for start in starts:
            newton = Newton(objective, start)
            trace = iterate(newton.step, name="log joint", **limits._asdict(), open_end=True)
            found.append(Mode(newton.v, objective.height(newton.v), trace))
            if trace.interrupted:
                break
    return min(found, key=lambda mode: mode.height)


def precision(loss: Loss, phi: Tensor, F: Tensor) -> Tensor:
    """A = I + Φᵀ H Φ."""
    return with_prior(loss.curvature(phi, F))


def with_prior(curvature: Tensor) -> Tensor:
    """I + Φᵀ H Φ, symmetric to the last digit."""
    return 0.5 * (curvature + curvature.T) + torch.eye(len(curvature), dtype=curvature.dtype, device=curvature.device)


def projected_factor(A: Tensor, floor: float = FLOOR) -> Tensor:
    """Cholesky factor of A after lifting its eigenvalues to ``floor`` where they lie below."""
    if _above_floor(A, floor):
        return cholesky(A, what="precision at the mode").lower
    values, vectors = torch.linalg.eigh(A)
    return cholesky((vectors * values.clamp(min=floor)) @ vectors.T, what="projected precision").lower


def log_evidence(loss: Loss, phi: Tensor, mode: Tensor, floor: float = FLOOR) -> Tensor:
    """(6.3) or (6.5) at the mode, differentiable in Φ with the mode's own dependence on Φ included.

    v̂ − A⁻¹ ∇S(v̂; Φ) has the value v̂ and, by the implicit function theorem, the derivative dv̂/dΦ, if A and v̂ are held
    fixed inside and ∇S is not.
    """
    fixed = phi.detach()
    with torch.no_grad():
        A = precision(loss, fixed, fixed @ mode)
    gradient = phi.T @ loss.slope(phi @ mode) + mode
    v = mode - solve_factor(projected_factor(A, floor), gradient[:, None])[:, 0]
    F = phi @ v
    return -(loss.value(F) + 0.5 * v @ v + 0.5 * _projected_logdet(precision(loss, phi, F), floor))


def evidence_at(mode: SecondOrder) -> Tensor:
    """(6.5) at the mode of a convex loss."""
    return -(mode.height + 0.5 * _projected_logdet(mode.precision, FLOOR))


def _projected_logdet(A: Tensor, floor: float) -> Tensor:
    if _above_floor(A.detach(), floor):
        return logdet(cholesky(A, what="precision at the mode").lower)
    values: Tensor = torch.linalg.eigvalsh(A)
    return values.clamp(min=floor).log().sum()


def _above_floor(A: Tensor, floor: float) -> bool:
    if not bool(torch.isfinite(A).all()):
        raise NumericalError("the curvature at the mode is not finite; check the scale of the features and the kernel.")
    return int(torch.linalg.cholesky_ex(A - floor * torch.eye(len(A), dtype=A.dtype, device=A.device))[1]) == 0


def _safe_solve(A: Tensor, gradient: Tensor) -> Tensor:
    """A⁻¹ g, with |eigenvalues| (at least ``_STEEPEST``) instead of eigenvalues where A is not positive definite."""
    lower, info = torch.linalg.cholesky_ex(A)
    if int(info) == 0:
        return solve_factor(lower, gradient[:, None])[:, 0]
    values, vectors = torch.linalg.eigh(A)
    solution: Tensor = vectors @ ((vectors.T @ gradient) / values.abs().clamp(min=_STEEPEST))
    return solution
