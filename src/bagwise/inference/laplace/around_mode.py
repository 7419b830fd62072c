"""Laplace's approximation of a log evidence around the mode of v, for any log likelihood of rows (theory section 4.2).

    log Z ≈ Σ_b ℓ_b(v̂) − ½ |v̂|² − ½ log det A(v̂),   A = I + information,   v̂ the mode                       (4.7)

With A in the place of the curvature every step of the search for the mode goes uphill, and A is never indefinite. Where
that is slow, because a scoring step gains too little of what the one before promised, the curvature itself is used.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.numerics.linalg import Factor, cholesky, logdet, second_derivatives, solve_factor

_HALVINGS = 20
_NEGLIGIBLE = 1e-8  # nats that a step promises: where these do not fall any more, the slope is rounding
_SLOW = 0.2  # of the gain that the step before promised: what a step may still promise where scoring is fast enough


class Rows(NamedTuple):
    """Features φ/√(1 + κ) of the rows, and 1/√(1 + κ): what their latent values are multiplied by."""

    scaled: Tensor
    shrink: Tensor

    @classmethod
    def of(cls, design: Design) -> "Rows":
        """With f integrated out beforehand (section 1.4)."""
        shrink = torch.rsqrt(1.0 + design.kappa)
        return cls(design.phi * shrink[:, None], shrink)

    def detach(self) -> "Rows":
        """The same without derivatives."""
        return Rows(self.scaled.detach(), self.shrink.detach())


class FoundMode(NamedTuple):
    """v̂, the Cholesky factor of A there, (4.7), how many steps it took, and whether nothing moved any more."""

    v: Tensor
    lower: Tensor
    log_evidence: Tensor
    steps: int
    settled: bool


class ModeEvidence(ABC):
    """(4.7) as a differentiable function of the features; remembers the mode from one kernel to the next."""

    settled_at = 1e-8  # expected gain, in nats, of another scoring step
    most_steps = 60
    curved_columns = 0  # of v up to which the curvature is the precision of what is found, in the place of A
    newton_entries = 0  # of the features up to which steps may use the curvature
    rounding = 0.0  # relative to the value, by which it may seem to fall
    _mode: Tensor | None = None
    _height: Tensor  # the value at the mode
    _steps = 0
    _still = False

    @abstractmethod
    def _log_likelihood(self, rows: Rows, z: Tensor) -> Tensor:
        """Σ ℓ_b at the scores z (n,) of the rows."""

    @abstractmethod
    def _information(self, rows: Rows, z: Tensor) -> Tensor:
        """What the bags tell about v, (R, R)."""

    def __call__(self, design: Design) -> Tensor:
        """log Z at the mode, and the derivative of the mode with it: v̂ + (−Hess)⁻¹ slope moves as the mode does."""
        rows = Rows.of(design)
        still = rows.detach()
        with torch.no_grad():
            mode = self._settled(still)
        curvature = self._curvature(still, mode)
        fixed = mode.clone().requires_grad_()
        (slope,) = torch.autograd.grad(self._value(rows, fixed), fixed, create_graph=True)
        change, failed = torch.linalg.solve_ex(curvature, slope)
        if int(failed):
            raise NumericalError("the mode of the moment evidence is not isolated at this kernel.")
        moving = mode + change
        return self._finite(self._value(rows, moving) - 0.5 * logdet(self._metric(rows, moving).lower))

    def begin_at(self, v: Tensor) -> None:
        """Look for the mode from here."""
        self._mode = v

    @torch.no_grad()
    def find(self, design: Design) -> FoundMode:
        """The mode and what goes with it."""
        rows = Rows.of(design)
        v = self._settled(rows)
        lower = self._curvature_factor(rows, v) if len(v) <= self.curved_columns else None
        lower = self._metric(rows, v).lower if lower is None else lower
        log_evidence = self._finite(self._height - 0.5 * logdet(lower))
        return FoundMode(v, lower, log_evidence, self._steps, self._still)

    def _settled(self, rows: Rows) -> Tensor:
        """The mode, by Fisher scoring and where that is slow by Newton's method, with halved steps."""
        v = rows.scaled.new_zeros(rows.scaled.shape[1]) if self._mode is None else self._mode
        self._still, before = False, float("inf")
        value, slope = self._sloped(rows, v)
        self._finite(value)
        for count in range(self.most_steps):
            self._steps = count + 1
            step = _solved(self._metric(rows, v).lower, slope)
            if float(slope @ step) > _SLOW * before and rows.scaled.numel() <= self.newton_entries:
                lower = self._curvature_factor(rows, v)
                step = step if lower is None else _solved(lower, slope)
            promise = float(slope @ step)
            taken = self._stepped(rows, v, step, float(value), promise)
            if taken is not None:
                v, value, slope = taken
            rounding, before = 0.5 * before < promise < _NEGLIGIBLE, promise
            if taken is None or promise < self.settled_at or rounding:
                self._still = True
                break
        self._mode, self._height = v, value
        return v

    def _curvature_factor(self, rows: Rows, v: Tensor) -> Tensor | None:
        """The factor of the curvature; None where it is not positive definite."""
        curvature = self._curvature(rows, v)
        lower, failed = torch.linalg.cholesky_ex(0.5 * (curvature + curvature.T))
        return None if int(failed) or not bool(torch.isfinite(lower).all()) else lower

    def _sloped(self, rows: Rows, v: Tensor) -> tuple[Tensor, Tensor]:
        """Value and slope at v, by automatic differentiation."""
        with torch.enable_grad():
            here = v.detach().requires_grad_()
            value = self._value(rows, here)
            (slope,) = torch.autograd.grad(value, here)
        return value.detach(), slope

    def _curvature(self, rows: Rows, v: Tensor) -> Tensor:
        """Minus the second derivatives of the value at v, by automatic differentiation."""
        with torch.enable_grad():
            return -second_derivatives(lambda at: self._value(rows, at), v)

    def _stepped(
        self, rows: Rows, v: Tensor, step: Tensor, value: float, promise: float
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Where a step uphill ends, with value and slope there; None where no part of it goes uphill."""
        length = 1.0
        for _ in range(_HALVINGS):
            new = v + length * step
            found, slope = self._sloped(rows, new)
            if float(found) >= value + 1e-4 * length * promise - self.rounding * abs(value):
                return new, found, slope
            length *= 0.5
        return None

    def _value(self, rows: Rows, v: Tensor) -> Tensor:
        """Σ ℓ_b − ½ |v|²."""
        return self._log_likelihood(rows, rows.scaled @ v) - 0.5 * v @ v

    @staticmethod
    def _finite(value: Tensor) -> Tensor:
        if not bool(torch.isfinite(value)):
            raise NumericalError("the moment evidence is not finite at this kernel.")
        return value

    def _metric(self, rows: Rows, v: Tensor) -> Factor:
        """The factor of A."""
        information = self._information(rows, rows.scaled @ v)
        eye = torch.eye(len(information), dtype=information.dtype, device=information.device)
        return cholesky(eye + information, what="precision", attempts=1)


def _solved(lower: Tensor, b: Tensor) -> Tensor:
    return solve_factor(lower, b[:, None])[:, 0]
