"""Counts in very large bags, where a table over (instance, count) would be too big.

The sum over counts is a Fourier integral. Moved through the saddle point (every instance tilted by the same t, so that
the likely count becomes the expected one) its integrand is a bump of width 1/sd, and the trapezoid rule with a few
dozen frequencies is accurate to rounding. Nothing is expanded: the leading term of that integral is the approximation
of docs/theory.md 2.3 (c), and here the whole of it is kept. All arrays are (positions, columns), one column per bag.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_NEGLIGIBLE = 37.0  # exp(-37) = 8.5e-17: what falls this far below the total cannot be seen in float64
_TRUSTED_GROWTH = 5.0  # rounding may be magnified by e^5 = 150
_BISECTIONS = 48
_SMALLEST_RATIO = 1e-16


class ColumnPosterior(NamedTuple):
    """(2.4) for columns of instances: log Z (columns,), log r and log rbar (positions, columns)."""

    log_z: Tensor
    log_r: Tensor
    log_rbar: Tensor


class _Instances(NamedTuple):
    """(positions, columns) each; a logit is 0 where p = q = 0."""

    log_p: Tensor
    log_q: Tensor
    logits: Tensor

    def only(self, chosen: Tensor) -> "_Instances":
        return _Instances(*(array[:, chosen] for array in self))


class _Job(NamedTuple):
    """Columns, and log psi (counts, columns) at the counts to be summed over; -inf at the others."""

    columns: Tensor
    log_psi: Tensor

    def only(self, chosen: Tensor) -> "_Job":
        return _Job(self.columns[chosen], self.log_psi[:, chosen])

    def halves(self, boundary: Tensor) -> list["_Job"]:
        """The counts below the boundary, and the others."""
        below = _counts(self.log_psi) < boundary
        return [_Job(self.columns, self.log_psi.masked_fill(hidden, -torch.inf)) for hidden in (~below, below)]


class _Window(NamedTuple):
    """The counts centre - reach .. centre + reach of each column, seen through one tilt."""

    chance: Tensor  # (S, columns) of a positive, after tilting
    variance: Tensor  # chance (1 - chance), without cancellation
    centre: Tensor
    reach: Tensor
    frequencies: Tensor  # (J, columns)
    weights: Tensor


def contour_posterior(log_p: Tensor, log_q: Tensor, log_psi: Tensor) -> ColumnPosterior:
    """Z, r and rbar of (2.4) by the Fourier integral through the saddle point.

    log Z is as accurate as the sum of its n terms; r and rbar have an absolute error near 1e-13, and a small r keeps
    its relative accuracy as long as it is small because p is (an r made small by the other instances is right to about
    1e-16 in absolute terms only). A column without any possible count has log Z = -inf and NaN for r.
    """
    # P(k) = exp(K(t) - t k) P_t(k), where K(t) = sum_i log(q_i + p_i e^t) and P_t is the law of the tilted count. One
    # tilt serves all counts of a potential with one hump; a potential with several is split between them.
    everyone = _instances(log_p, log_q)
    total = ColumnPosterior(*(torch.full_like(like, -torch.inf) for like in (log_p[0], log_p, log_p)))
    jobs = [_Job(torch.arange(log_p.shape[1], device=log_p.device), _possible_counts(log_p, log_q, log_psi))]
    while jobs:
        job = jobs.pop()
        instances = everyone.only(job.columns)
        tilt, bound = _smallest_bound(instances, job.log_psi)
        matters = bound + math.log(len(log_psi)) > total.log_z[job.columns] - _NEGLIGIBLE
        top, one_hump = _top(instances.logits, tilt, job.log_psi)
        apart, ready = matters & ~one_hump, matters & one_hump
        if bool(apart.any()):
            jobs += job.only(apart).halves(top[apart])
        if bool(ready.any()):
            job = job.only(ready)
            found = _window_posterior(instances.only(ready), tilt[ready], top[ready], job.log_psi)
            for sums, addition in zip(total, found, strict=True):
                sums[..., job.columns] = torch.logaddexp(sums[..., job.columns], addition)
    norm = torch.logaddexp(total.log_r, total.log_rbar)
    return ColumnPosterior(total.log_z, total.log_r - norm, total.log_rbar - norm)


def draw_in_band(log_p: Tensor, log_q: Tensor, log_psi: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Exact labels of each column, one uniform per instance, and log Z; where that is -inf the labels mean nothing.

    Only counts near the expected path are kept. The band is doubled until the probability of the paths that leave it,
    which is known because log Z is, is below 1e-9 (or the rounding of log Z).
    """
    posterior = contour_posterior(log_p, log_q, log_psi)
    centres, steps = _expected_path(posterior.log_r.exp())
    spread = (posterior.log_r + posterior.log_rbar).exp().sum(0).nan_to_num(0.0).max()
    reach = math.ceil(9.0 * math.sqrt(float(spread)) + 10.0)
    while True:
        band = _Band(log_p, log_q, log_psi, centres, steps, min(reach, len(log_psi)))
        lost = (posterior.log_z - band.log_z).masked_fill(posterior.log_z == -torch.inf, 0.0)
        if reach >= len(log_psi) or bool((lost < 1e-9 + 1e-12 * posterior.log_z.abs()).all()):
            return band.draw(uniforms), posterior.log_z
        reach *= 2


# ---------------------------------------------------------------- the most likely counts and their tilt


def _instances(log_p: Tensor, log_q: Tensor) -> _Instances:
    impossible = (log_p == -torch.inf) & (log_q == -torch.inf)
    return _Instances(log_p, log_q, torch.where(impossible, 0.0, log_p - log_q))


def _possible_counts(log_p: Tensor, log_q: Tensor, log_psi: Tensor) -> Tensor:
    """log psi where the instances known to be positive or negative leave the count possible, else -inf."""
    counts = _counts(log_psi)
    fewest, most = (log_q == -torch.inf).sum(0), (log_p > -torch.inf).sum(0)
    return log_psi.masked_fill((counts < fewest) | (counts > most), -torch.inf)


def _smallest_bound(instances: _Instances, log_psi: Tensor) -> tuple[Tensor, Tensor]:
    """The tilt t that minimises D(t) = K(t) + max_k [log psi(k) - t k], and D there.

    sum_k psi(k) P(k) <= (n + 1) exp D(t) for every t, since P(k) <= exp(K(t) - t k). D is convex with slope
    (expected count at t) - (maximising k): for one hump in log psi(k) + log P(k) the two meet at its top.
    """
    counts = _counts(log_psi).to(log_psi.dtype)
    tilt = _bisect(instances.logits, lambda t: (log_psi - t * counts).argmax(0))
    return tilt, _cumulant(instances, tilt) + (log_psi - tilt * counts).amax(0)


def _top(logits: Tensor, tilt: Tensor, log_psi: Tensor) -> tuple[Tensor, Tensor]:
    """The expected count, and whether the tilted potential there is within e^5 of its largest value.

    If so, counts outside the window weigh less than e^5 times the chance of leaving it, and none magnifies rounding by
    more. If not, the slope of D jumps across the expected count, as the potential has a hump on either side of it: then
    the first count of the upper hump's side.
    """
    tilted = log_psi - tilt * _counts(log_psi)
    expected = torch.sigmoid(logits + tilt).sum(0).round().long()
    one_hump = tilted.gather(0, expected[None]).squeeze(0) >= tilted.amax(0) - _TRUSTED_GROWTH
    possible = (log_psi > -torch.inf).long()
    first, last = possible.argmax(0), len(log_psi) - 1 - possible.flip(0).argmax(0)
    alone = first == last
    divide = torch.where(alone, first, torch.maximum(first + 1, torch.minimum(expected, last)))
    return torch.where(one_hump, expected, divide), one_hump | alone


def _bisect(logits: Tensor, wanted: Callable[[Tensor], Tensor]) -> Tensor:
    """t where the expected count sum_i sigma(logit_i + t) meets ``wanted(t)``, which must not increase with t."""
    # At the ends of the bracket the expected count is within 1/e of the smallest and the largest possible count.
    free = logits.isfinite()
    margin = math.log(len(logits)) + 1.0
    low = -logits.masked_fill(~free, -torch.inf).amax(0) - margin
    high = -logits.masked_fill(~free, torch.inf).amin(0) + margin
    low, high = (end.masked_fill(~free.any(0), 0.0) for end in (low, high))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        too_low = torch.sigmoid(logits + middle).sum(0) < wanted(middle)
        low, high = torch.where(too_low, middle, low), torch.where(too_low, high, middle)
    return 0.5 * (low + high)


def _cumulant(instances: _Instances, tilt: Tensor) -> Tensor:
    """K(t) = sum_i log(q_i + p_i e^t)."""
    return torch.logaddexp(instances.log_q, instances.log_p + tilt).sum(0)


# ---------------------------------------------------------------- one window of counts


def _window_posterior(instances: _Instances, tilt: Tensor, top: Tensor, log_psi: Tensor) -> ColumnPosterior:
    """log Z, log(Z r), log(Z rbar), summed over the counts in a window around ``top``."""
    window = _open_window(instances.logits + tilt)
    log_psi_top = log_psi.gather(0, top[None]).squeeze(0)
    potential = log_psi - log_psi_top - tilt * (_counts(log_psi) - top)
    transform = _count_transform(window) * _potential_transform(window, potential)
    mass = transform.real.sum(0)
    log_z = _cumulant(instances, tilt) - tilt * top + log_psi_top + mass.log()
    positive, negative = _ratios(window, transform / mass)
    log_r = torch.nn.functional.logsigmoid(instances.logits + tilt) + positive.log() + log_z
    log_rbar = torch.nn.functional.logsigmoid(-instances.logits - tilt) + negative.log() + log_z
    return ColumnPosterior(log_z, log_r, log_rbar)


def _open_window(tilted_logits: Tensor) -> _Window:
    # By Bennett's inequality a sum of independent 0/1 variables of variance s^2 leaves mean +-(11 s + 10) with
    # probability below 1e-17, so one period of 2 reach + 1 counts holds the tilted law without aliasing. Its transform
    # is at most exp(-2 s^2 sin^2(w/2)), below 2e-14 once sin(w/2) > 4/s: higher frequencies are left out.
    chance = torch.sigmoid(tilted_logits)
    variance = chance * torch.sigmoid(-tilted_logits)
    sd = variance.sum(0).sqrt()
    reach = torch.ceil(11.0 * sd + 10.0)
    period = 2.0 * reach + 1.0
    highest = 2.0 * torch.asin((4.0 / sd).clamp(max=1.0))
    needed = torch.minimum(reach, torch.ceil(highest * period / (2.0 * math.pi)))
    steps = _column(torch.arange(int(needed.max()) + 1, device=sd.device, dtype=sd.dtype))
    weights = torch.where(steps == 0, 1.0, 2.0) / period  # a real law: negative frequencies mirror the positive ones
    weights = torch.where(steps <= needed, weights, 0.0)
    return _Window(chance, variance, chance.sum(0).round(), reach, 2.0 * math.pi * steps / period, weights)


def _count_transform(window: _Window) -> Tensor:
    """weight_j prod_i (1 - c_i + c_i e^{i w_j}) e^{-i w_j centre}, with c_i the tilted chance of a positive."""
    offset = window.centre - window.chance.sum(0)
    values = []
    for frequency, weight in zip(window.frequencies, window.weights, strict=True):
        dip = 2.0 * torch.sin(0.5 * frequency).square()
        log_size = 0.5 * torch.log1p(-2.0 * window.variance * dip).sum(0)
        turn = torch.atan2(window.chance * torch.sin(frequency), 1.0 - window.chance * dip)
        turn = (turn - window.chance * frequency).sum(0) - frequency * offset
        values.append(torch.polar(weight * log_size.exp(), turn))
    return torch.stack(values)


def _potential_transform(window: _Window, log_potential: Tensor) -> Tensor:
    """sum_k psi(k) e^{-i w_j (k - centre)} over the counts in the window, with psi tilted."""
    reach = int(window.reach.max())
    distance = _column(torch.arange(-reach, reach + 1, device=log_potential.device))
    counts = (window.centre + distance).long()
    outside = (counts < 0) | (counts >= len(log_potential)) | (distance.abs() > window.reach)
    near = log_potential.gather(0, counts.clamp(0, len(log_potential) - 1)).masked_fill(outside, -torch.inf).exp()
    return torch.stack([torch.polar(near, -frequency * distance).sum(0) for frequency in window.frequencies])


def _ratios(window: _Window, transform: Tensor) -> tuple[Tensor, Tensor]:
    """Z_i^+/Z and Z_i^-/Z of (2.2) after tilting: leaving instance i out divides by 1 - c_i + c_i e^{i w_j}."""
    positive, negative = torch.zeros_like(window.chance), torch.zeros_like(window.chance)
    for frequency, value in zip(window.frequencies, transform, strict=True):
        dip = 2.0 * torch.sin(0.5 * frequency).square()
        real, imaginary = 1.0 - window.chance * dip, window.chance * torch.sin(frequency)
        size = 1.0 - 2.0 * window.variance * dip
        turned = value * torch.polar(torch.ones_like(frequency), frequency)
        positive += (turned.real * real + turned.imag * imaginary) / size
        negative += (value.real * real + value.imag * imaginary) / size
    return positive.clamp(min=_SMALLEST_RATIO), negative.clamp(min=_SMALLEST_RATIO)


# ---------------------------------------------------------------- draws


def _expected_path(chance: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers near the expected count before each instance and after the last, and their steps of 0 or 1."""
    rounded = torch.floor(chance.nan_to_num(0.0).cumsum(0) + 0.5).long()
    steps = torch.diff(rounded, dim=0, prepend=torch.zeros_like(rounded[:1])).clamp(0, 1)
    return torch.cat([torch.zeros_like(steps[:1]), steps.cumsum(0)]), steps.bool()


class _Band:
    """The backward messages beta_i(k) of (2.4) for |k - centre_i| <= reach, kept at every sqrt(n)-th position."""

    def __init__(
        self, log_p: Tensor, log_q: Tensor, log_psi: Tensor, centres: Tensor, steps: Tensor, reach: int
    ) -> None:
        self._log_p, self._log_q, self._steps, self._reach = log_p, log_q, steps, reach
        self._stride = math.isqrt(len(log_p)) + 1
        counts = centres[-1] + _column(torch.arange(-reach, reach + 1, device=log_p.device))
        inside = (counts >= 0) & (counts < len(log_psi))
        beta = log_psi.gather(0, counts.clamp(0, len(log_psi) - 1)).masked_fill(~inside, -torch.inf)
        self._kept = {len(log_p): beta}
        for i in reversed(range(len(log_p))):
            beta = self._before(i, beta)
            if i % self._stride == 0:
                self._kept[i] = beta
        self.log_z = beta[reach]

    def _before(self, i: int, beta: Tensor) -> Tensor:
        """beta_{i-1} from beta_i; where the centre has moved by one, the same count stands one place lower."""
        outside = torch.full_like(beta[:1], -torch.inf)
        stay = torch.where(self._steps[i], torch.cat([outside, beta[:-1]]), beta)
        rise = torch.where(self._steps[i], beta, torch.cat([beta[1:], outside]))
        return torch.logaddexp(stay + self._log_q[i], rise + self._log_p[i])

    def _stretch(self, start: int) -> list[Tensor]:
        """beta after each instance of one stretch, worked out again from the message kept at its end."""
        stop = min(start + self._stride, len(self._log_p))
        messages = [self._kept[stop]]
        for i in reversed(range(start + 1, stop)):
            messages.append(self._before(i, messages[-1]))
        return messages[::-1]

    def draw(self, uniforms: Tensor) -> Tensor:
        """y_i ~ P(y_i | y_1 .. y_{i-1}, evidence), from the front."""
        labels = torch.zeros_like(uniforms, dtype=torch.bool)
        place = torch.full_like(self._steps[0], self._reach, dtype=torch.long)
        for start in range(0, len(uniforms), self._stride):
            for i, beta in enumerate(self._stretch(start), start):
                padded = torch.nn.functional.pad(beta, (0, 0, 1, 1), value=-torch.inf)
                place = place - self._steps[i].long()
                stay, rise = (padded.gather(0, index[None]).squeeze(0) for index in (place + 1, place + 2))
                odds = (self._log_p[i] + rise) - (self._log_q[i] + stay)
                labels[i] = uniforms[i] < torch.sigmoid(odds)
                place = place + labels[i].long()
        return labels


def _counts(log_psi: Tensor) -> Tensor:
    return _column(torch.arange(len(log_psi), device=log_psi.device))


def _column(values: Tensor) -> Tensor:
    return values[:, None]
