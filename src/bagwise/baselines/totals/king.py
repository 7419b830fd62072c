"""King's model of two groups: rates of bags from a truncated normal law, by maximum likelihood and simulation."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_ndtr, ndtr
from scipy.stats import norm, truncnorm

from bagwise import _validation as check
from bagwise.baselines.totals.group_totals import Floats, GroupTotals, RatesFromTotals, over_people
from bagwise.exceptions import BagDataError, ConvergenceWarning, warn_user
from bagwise.models._base.saved import ModelCard

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_REACH = 8.0  # standard deviations beyond which a normal law has nothing
_LARGEST_CORRELATION = 0.999
_LEAST_SD = 1e-3
_POINT = 1e-9  # least width of a line
_STEP = 1e-3  # of differences
_PRIOR_SD = 0.5  # of the two standard deviations and, on Fisher's scale, of the correlation, as in King's program


class RateLaw(NamedTuple):
    """A normal law of two rates before it is cut to the unit square."""

    mean: Floats  # (2,)
    sd: Floats  # (2,)
    correlation: float


class King2x2(RatesFromTotals):
    """King's 2 × 2 model: the rates of the two groups in a bag are drawn from a normal law cut to the unit square.

    The law is fitted to the shares of all bags by maximum likelihood with weak priors on its spread, and its parameters
    are drawn from the normal approximation around the maximum, weighted by importance. Given a law, the two rates of a
    bag lie on the line that its totals allow; they are drawn from the law along that line.

    It rests on rates that do not go with composition, as Goodman's regression does, and on one cluster of bags. Where
    that fails its intervals are too narrow. Three groups or more need another model (``BagGP`` with totals).

    Parameters
    ----------
    n_draws : int, default=400
        Number of draws of the parameters and of the rates. Increase it for smoother intervals; it costs time.
    random_state : int, RandomState instance or None, default=None
        Where the draws come from. Give a number to get the same answer again.

    Attributes
    ----------
    law_ : RateLaw
        The law at the maximum.
    groups_ : tuple of str
        Names of the groups.
    n_features_in_ : int
        Number of groups.

    References
    ----------
    King, A Solution to the Ecological Inference Problem, Princeton University Press 1997: chapters 6 to 8.
    """

    card = ModelCard("king-2x2", ("fraction",), "King 1997", "own, by simulation")

    def __init__(self, n_draws: int = 400, random_state: Any = None) -> None:
        self.n_draws = n_draws
        self.random_state = random_state

    def _fit(self, totals: GroupTotals) -> None:
        check.check_count("n_draws", self.n_draws)
        if totals.people.shape[1] != 2:
            raise BagDataError(f"King2x2 is for two groups; there are {totals.people.shape[1]}. Use BagGP with totals.")
        x, t = totals.composition[:, 0], totals.share

        def loss(parameters: Floats) -> float:
            return -log_chance_of_shares(law_of(parameters), x, t) - _log_prior(parameters)

        starts = [np.array([0.0, 0.0, np.log(sd), np.log(sd), 0.0]) for sd in (0.1, 0.3)]
        found = min((minimize(loss, start, method="BFGS") for start in starts), key=lambda one: one.fun)
        if not np.isfinite(found.fun):
            warn_user("the likelihood of King's model has no finite maximum here.", ConvergenceWarning)
        self.law_ = law_of(found.x)
        self._laws = self._drawn(loss, found)

    def _drawn(self, loss: Any, found: Any) -> list[RateLaw]:
        """Draws of the parameters: normal around the maximum, weighted by importance and drawn again."""
        random = check.random_stream(self.random_state)
        root = _inverse_root(_curvature(loss, found.x))
        z = random.standard_normal((self.n_draws, 5))
        points = found.x + z @ root.T
        log_weight = np.array([found.fun - loss(point) for point in points]) + 0.5 * np.square(z).sum(axis=1)
        weight = np.exp(log_weight - log_weight.max())
        kept = random.choice(self.n_draws, size=self.n_draws, p=weight / weight.sum())
        return [law_of(points[number]) for number in kept]

    def _rates(self, totals: GroupTotals, level: float) -> tuple[Floats, ...]:
        random = check.random_stream(self.random_state)
        draws = np.stack([draw_rates(law, totals, random) for law in self._laws])
        overall = over_people(draws, totals.people)
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        return (
            draws.mean(axis=0),
            *np.quantile(draws, tails, axis=0),
            overall.mean(axis=0),
            *np.quantile(overall, tails, axis=0),
        )


def _curvature(loss: Any, at: Floats) -> Floats:
    """(5, 5) second derivatives by central differences."""
    steps = _STEP * np.eye(len(at))
    corners = [
        [loss(at + a + b) - loss(at + a - b) - loss(at - a + b) + loss(at - a - b) for b in steps] for a in steps
    ]
    return np.array(corners) / (4.0 * _STEP**2)


def _inverse_root(curvature: Floats) -> Floats:
    """R with R Rᵀ = the inverse; directions in which the maximum is flat get a standard deviation of 2."""
    values, vectors = np.linalg.eigh(curvature)
    found: Floats = vectors / np.sqrt(np.maximum(values, 0.25))
    return found


def law_of(parameters: Floats) -> RateLaw:
    """Means by their log odds (stretched, so that they may lie outside 0 … 1), logarithms of sds, Fisher's z."""
    mean = 2.0 * expit(parameters[:2]) - 0.5
    return RateLaw(
        mean,
        _LEAST_SD + np.exp(np.clip(parameters[2:4], -7.0, 3.0)),
        _LARGEST_CORRELATION * float(np.tanh(parameters[4])),
    )


def _log_prior(parameters: Floats) -> float:
    """Half-normal on both sds, normal on Fisher's z: King's choice, without which flat laws run away."""
    sd = np.exp(np.clip(parameters[2:4], -7.0, 3.0))
    return float(-0.5 * np.sum(np.square(sd / _PRIOR_SD)) - 0.5 * (parameters[4] / _PRIOR_SD) ** 2)


def log_chance_of_shares(law: RateLaw, x: Floats, t: Floats) -> float:
    """Σ log p(t | x): the normal density of t, times the chance of the line inside the square, over that of the square.

    King (1997), appendix D. A line is followed along the rate of the smaller group, which it never fixes.
    """
    few = x <= 0.5
    lines = [_log_line(law, x[few], t[few]), _log_line(exchanged(law), 1.0 - x[~few], t[~few])]
    return float(sum(part.sum() for part in lines) - len(t) * np.log(chance_of_the_square(law)))


def _log_line(law: RateLaw, x: Floats, t: Floats) -> Floats:
    line = line_of(law, x, t)
    low, high = ((bound - line.centre) / line.spread for bound in (line.least, line.most))
    found: Floats = norm.logpdf(t, line.mean, line.sd) + _log_between(low, high)
    return found


def chance_of_the_square(law: RateLaw) -> float:
    """P(both rates lie between 0 and 1), by quadrature over the first."""
    (m1, m2), (s1, s2), r = law.mean, law.sd, law.correlation
    low, high = np.clip([m1 - _REACH * s1, m1 + _REACH * s1], 0.0, 1.0)
    first = low + 0.5 * (high - low) * (_NODES + 1.0)
    centre = m2 + r * s2 / s1 * (first - m1)
    rest = s2 * np.sqrt(1.0 - r**2)
    inner = ndtr((1.0 - centre) / rest) - ndtr(-centre / rest)
    found = 0.5 * (high - low) * np.sum(_WEIGHTS * norm.pdf(first, m1, s1) * inner)
    return max(float(found), 1e-300)


def draw_rates(law: RateLaw, totals: GroupTotals, random: np.random.RandomState) -> Floats:
    """(B, 2) rates along the lines that the totals allow."""
    x, t = totals.composition[:, 0], totals.share
    few = x <= 0.5
    found = np.empty((len(x), 2))
    found[few] = _drawn_along(law, x[few], t[few], random)
    found[~few] = _drawn_along(exchanged(law), 1.0 - x[~few], t[~few], random)[:, ::-1]
    return found


def _drawn_along(law: RateLaw, x: Floats, t: Floats, random: np.random.RandomState) -> Floats:
    line = line_of(law, x, t)
    low, high = ((bound - line.centre) / line.spread for bound in (line.least, line.most))
    first = line.centre + line.spread * truncnorm.ppf(random.uniform(size=len(x)), low, high)
    first = np.clip(first, line.least, line.most)
    return np.column_stack([first, np.clip((t - x * first) / (1.0 - x), 0.0, 1.0)])


class Line(NamedTuple):
    """The rates (first, (t - x first) / (1 - x)) that a share t allows where the first group is a share x ≤ ½."""

    mean: Floats  # of t, before the law is cut to the square
    sd: Floats
    centre: Floats  # of the first rate given t, before cutting
    spread: Floats
    least: Floats  # what the square leaves of the first rate
    most: Floats


def line_of(law: RateLaw, x: Floats, t: Floats) -> Line:
    """One line per bag; where it is a point, a little width, so that a density is left."""
    (m1, m2), (s1, s2), r = law.mean, law.sd, law.correlation
    mean = x * m1 + (1.0 - x) * m2
    variance = (x * s1) ** 2 + ((1.0 - x) * s2) ** 2 + 2.0 * x * (1.0 - x) * r * s1 * s2
    shared = x * s1**2 + (1.0 - x) * r * s1 * s2  # covariance of the first rate and t
    spread = np.sqrt(np.maximum(s1**2 - shared**2 / variance, 1e-12))
    share = np.where(x > 0.0, x, 1.0)
    least = np.where(x > 0.0, np.clip((t - (1.0 - x)) / share, 0.0, 1.0 - _POINT), 0.0)
    most = np.where(x > 0.0, np.clip(t / share, 0.0, 1.0), 1.0)
    centre = m1 + shared / variance * (t - mean)
    return Line(mean, np.sqrt(variance), centre, spread, least, np.maximum(most, least + _POINT))


def exchanged(law: RateLaw) -> RateLaw:
    """The law with the two groups exchanged."""
    return RateLaw(law.mean[::-1], law.sd[::-1], law.correlation)


def _log_between(low: Floats, high: Floats) -> Floats:
    """log(cdf(high) - cdf(low)) with all its digits in both tails."""
    flip = low > 0.0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = log_ndtr(high)
    found: Floats = upper + np.log1p(-np.exp(np.minimum(log_ndtr(low) - upper, -1e-300)))
    return found
