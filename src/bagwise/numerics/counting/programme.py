"""Which instances of a bag are positive, when only the number of positives matters.

Bag b holds n_b instances with weights p_i (positive) and q_i (negative) and a potential psi_b(k) on its number of
positives. The forward-backward programme (2.4) gives log Z_b, the posterior of every instance and exact
joint draws: in O(n c) where psi is constant beyond c, in O(n^2) for free tables, by a Fourier integral above that.
Everything is in log space: -inf (known instances, hard evidence) and log p = -10,000 are ordinary inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.exceptions import BagDataError, NumericalError
from bagwise.numerics.counting.potentials import CountPotentials, pieces
from bagwise.numerics.counting.saddle import ColumnPosterior, contour_posterior, draw_in_band

__all__ = [
    "CountPosterior",
    "CountPotentials",
    "count_posterior",
    "draw_labels",
    "draw_with_normaliser",
    "log_normaliser",
    "pair_covariance",
]

LARGEST_EXACT_COVARIANCE = 2**21  # n * n * columns of the table
_TILT_STEP = 1e-3


class CountPosterior(NamedTuple):
    """log Z (..., B); log P(y_i = 1 | evidence) and log P(y_i = 0 | evidence), both (..., N)."""

    log_z: Tensor
    log_r: Tensor
    log_rbar: Tensor


def count_posterior(log_p: Tensor, log_q: Tensor, potentials: CountPotentials) -> CountPosterior:
    """log Z of every bag and the posterior of every instance, (2.4).

    ``log_p`` and ``log_q`` are (..., N): the leading dimensions share the potentials. A bag whose evidence is
    impossible has log Z = -inf and NaN for its instances; other bags do not notice.
    """
    shape, (positive, negative) = log_p.shape, _flat(potentials, log_p, log_q)
    log_z = positive.new_empty(len(positive), len(potentials))
    log_r, log_rbar = (positive.new_empty(len(positive), shape[-1] + 1) for _ in range(2))
    for piece in pieces(positive, negative, potentials):
        solve = contour_posterior if piece.bucket.large else _exact_posterior
        found = solve(piece.log_p, piece.log_q, piece.table)
        piece.spread_bags(found.log_z, log_z)
        piece.spread_rows(found.log_r, log_rbar if piece.bucket.mirrored else log_r)
        piece.spread_rows(found.log_rbar, log_r if piece.bucket.mirrored else log_rbar)
    parts = log_z.reshape(*shape[:-1], len(potentials)), log_r[:, :-1].reshape(shape), log_rbar[:, :-1].reshape(shape)
    return CountPosterior(*(part.to(log_p.dtype) for part in parts))


def log_normaliser(log_p: Tensor, log_q: Tensor, potentials: CountPotentials) -> Tensor:
    """log Z (..., B), differentiable once: d log Z/d log p_i = r_i and d log Z/d log q_i = rbar_i (section 2.3)."""
    if torch.is_grad_enabled() and (log_p.requires_grad or log_q.requires_grad):
        differentiable: Callable[..., Tensor] = _LogNormaliser.apply
        return differentiable(log_p, log_q, potentials)
    positive, negative = _flat(potentials, log_p, log_q)
    log_z = positive.new_empty(len(positive), len(potentials))
    for piece in pieces(positive, negative, potentials):
        if piece.bucket.large:
            value = contour_posterior(piece.log_p, piece.log_q, piece.table).log_z
        else:
            value = _backward(piece.log_p, piece.log_q, piece.table)[0, 0]
        piece.spread_bags(value, log_z)
    return log_z.reshape(*log_p.shape[:-1], len(potentials)).to(log_p.dtype)


def draw_labels(log_p: Tensor, log_q: Tensor, potentials: CountPotentials, uniforms: Tensor) -> Tensor:
    """One exact joint draw of the labels of every bag, (..., N) bool (section 3.3).

    ``uniforms`` (..., N) in [0, 1): instance i uses uniforms[..., i] and no other, so the labels of a bag do not depend
    on its company.
    """
    return draw_with_normaliser(log_p, log_q, potentials, uniforms)[0]


def draw_with_normaliser(
    log_p: Tensor, log_q: Tensor, potentials: CountPotentials, uniforms: Tensor
) -> tuple[Tensor, Tensor]:
    """``draw_labels`` and, from the same pass, log Z (..., B)."""
    positive, negative, chances = _flat(potentials, log_p, log_q, uniforms)
    labels = torch.empty(len(positive), log_p.shape[-1] + 1, dtype=torch.bool, device=log_p.device)
    log_z = positive.new_empty(len(positive), len(potentials))
    for piece in pieces(positive, negative, potentials):
        draw = draw_in_band if piece.bucket.large else _exact_draw
        drawn, value = draw(piece.log_p, piece.log_q, piece.table, piece.columns(chances))
        piece.refuse_impossible(value)
        piece.spread_bags(value, log_z)
        piece.spread_rows(~drawn if piece.bucket.mirrored else drawn, labels)
    return labels[:, :-1].reshape(log_p.shape), log_z.reshape(*log_p.shape[:-1], len(potentials)).to(log_p.dtype)


def pair_covariance(log_p: Tensor, log_q: Tensor, potentials: CountPotentials, bag: int) -> Tensor:
    """Cov(y_i, y_j | evidence) within one bag, (..., n, n), for the curvature (2.3b); the diagonal is r rbar.

    Exact while n * n * columns of the table is at most ``LARGEST_EXACT_COVARIANCE`` (any table up to n = 127, labels up
    to n = 1,000). Above, the rank-one form of section 2.2, scaled to the variance that the evidence leaves the count.
    """
    rows = slice(int(potentials.offsets[bag]), int(potentials.offsets[bag + 1]))
    log_p, log_q, alone = log_p[..., rows], log_q[..., rows], potentials.of_bag(bag)
    exact = log_p.shape[-1] ** 2 * len(alone.plan[0].table) <= LARGEST_EXACT_COVARIANCE
    posterior = count_posterior(log_p, log_q, alone)
    covariance = (_conditioned_covariance if exact else _rank_one_covariance)(log_p, log_q, alone, posterior)
    covariance.diagonal(dim1=-2, dim2=-1).copy_((posterior.log_r + posterior.log_rbar).exp())
    return covariance


class _LogNormaliser(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_p: Tensor, log_q: Tensor, potentials: CountPotentials) -> Tensor:
        log_z, log_r, log_rbar = count_posterior(log_p, log_q, potentials)
        ctx.save_for_backward(log_p, log_q, log_r.exp(), log_rbar.exp(), potentials.bag_of_row)
        return log_z

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        first_order: Callable[..., tuple[Tensor, Tensor]] = _FirstOrder.apply
        return *first_order(gradient, *ctx.saved_tensors), None


class _FirstOrder(torch.autograd.Function):
    """The gradient, tied to its inputs so that a second derivative fails aloud.

    ``once_differentiable`` fails only if the incoming gradient has a graph; otherwise the second derivative would be
    taken as zero without a word.
    """

    @staticmethod
    def forward(
        ctx: Any, gradient: Tensor, log_p: Tensor, log_q: Tensor, r: Tensor, rbar: Tensor, bag_of_row: Tensor
    ) -> tuple[Tensor, Tensor]:
        of_rows = gradient.index_select(-1, bag_of_row)
        return of_rows * r, of_rows * rbar

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise NumericalError("log_normaliser is differentiable once only; pair_covariance gives curvatures (2.3b).")


def _flat(potentials: CountPotentials, *inputs: Tensor) -> list[Tensor]:
    """The inputs as (leads, N) in float64, after a look at their shapes and values."""
    shape, instances = inputs[0].shape, len(potentials.bag_of_row)
    if any(array.shape != shape for array in inputs) or shape[-1:] != (instances,):
        raise BagDataError(
            f"expected arrays of one shape (..., {instances}), as the potentials hold {instances} instances; "
            f"got {', '.join(str(tuple(array.shape)) for array in inputs)}."
        )
    flat = [array.detach().to(torch.float64).reshape(shape[:-1].numel(), instances) for array in inputs]
    for array in flat:
        if bool(array.isnan().any()):
            row = int(array.isnan().any(0).nonzero()[0])
            raise NumericalError(f"instance {row} of bag number {int(potentials.bag_of_row[row])}: its weight is NaN.")
    return flat


# ---------------------------------------------------------------- the programme, columns side by side
#
# State k = 0 .. c counts the positives so far; c = W - 1 stands for "c or more", which is exact because psi is constant
# from there on. A free table has c = n and never reaches that state early, so one programme serves both.


def _forward(log_p: Tensor, log_q: Tensor, width: int) -> Tensor:
    """alpha (S, W, columns): the log weight of each state before each instance."""
    either = torch.logaddexp(log_p, log_q)
    alpha = log_p.new_full((len(log_p), width, log_p.shape[1]), -torch.inf)
    alpha[0, 0] = 0.0
    for i in range(len(log_p) - 1):
        reached = min(i + 2, width)
        before, after = alpha[i, :reached], alpha[i + 1, :reached]
        torch.add(before, log_q[i], out=after)
        if reached == width:
            after[-1] = before[-1] + either[i]
        torch.logaddexp(after[1:], before[:-1] + log_p[i], out=after[1:])
    return alpha


def _backward(log_p: Tensor, log_q: Tensor, table: Tensor) -> Tensor:
    """beta (S + 1, W + 1, columns): the log weight of what is to come. Row W repeats row W - 1, which absorbs."""
    size, width = len(log_p), len(table)
    beta = table.new_empty((size + 1, width + 1, table.shape[1]))
    beta[size, :width], beta[size, width] = table, table[-1]
    *rows, after = beta  # views, all at once: on small tables taking slices costs more than the sums
    for i, (row, p, q) in reversed(list(enumerate(zip(rows, log_p, log_q, strict=True)))):
        reached = min(i + 1, width)
        torch.logaddexp(after[:reached] + q, after[1 : reached + 1] + p, out=row[:reached])
        if reached == width:
            row[width] = row[width - 1]
        after = row
    return beta


def _exact_posterior(log_p: Tensor, log_q: Tensor, table: Tensor) -> ColumnPosterior:
    """(2.4). r and rbar are divided by their sum, not by Z: they then add to one however small Z is."""
    alpha, beta = _forward(log_p, log_q, len(table)), _backward(log_p, log_q, table)
    log_r, log_rbar = log_p.clone(), log_q.clone()
    for i in range(len(log_p)):
        reached = min(i + 1, len(table))
        log_r[i] += _log_sum(alpha[i, :reached] + beta[i + 1, 1 : reached + 1])
        log_rbar[i] += _log_sum(alpha[i, :reached] + beta[i + 1, :reached])
    norm = torch.logaddexp(log_r, log_rbar)
    return ColumnPosterior(beta[0, 0].clone(), log_r.sub_(norm), log_rbar.sub_(norm))


def _log_sum(terms: Tensor) -> Tensor:
    """logsumexp over the first axis, in place. The floor keeps columns of -inf from (-inf) - (-inf)."""
    peak = terms.amax(0).clamp_(min=-1e300)
    return terms.sub_(peak).exp_().sum(0).log_().add_(peak)


def _exact_draw(log_p: Tensor, log_q: Tensor, table: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Labels from the front, y_i ~ P(y_i | y_1 .. y_{i-1}, evidence), and log Z."""
    beta = _backward(log_p, log_q, table)
    # u < sigmoid(odds) is logit(u) < odds. An impossible choice has odds of +-inf: hard evidence always holds. Odds of
    # states that no instance can be in are rubbish, and nobody looks at them.
    odds = (beta[1:, 1:] - beta[1:, :-1]).add_((log_p - log_q)[:, None])
    state = torch.zeros(1, log_p.shape[1], dtype=torch.int64, device=log_p.device)
    labels = []
    for own, threshold in zip(odds, torch.logit(uniforms), strict=True):
        labels.append(threshold < own.gather(0, state))
        state = (state + labels[-1]).clamp_(max=len(table) - 1)
    return torch.cat(labels), beta[0, 0]


# ---------------------------------------------------------------- pairs of instances


def _conditioned_covariance(
    log_p: Tensor, log_q: Tensor, potentials: CountPotentials, posterior: CountPosterior
) -> Tensor:
    """Cov(y_i, y_j) = r_i [P(y_j = 1 | y_i = 1) - r_j], with n copies of the bag in which y_i is known in turn."""
    n = log_p.shape[-1]
    given = log_q[..., None, :].masked_fill(torch.eye(n, dtype=torch.bool, device=log_q.device), -torch.inf)
    conditional = count_posterior(log_p[..., None, :].expand_as(given), given, potentials).log_r.exp()
    r = posterior.log_r.exp()
    covariance = (r[..., None] * (conditional - r[..., None, :])).masked_fill(r[..., None] == 0.0, 0.0)
    return 0.5 * (covariance + covariance.mT)


def _rank_one_covariance(
    log_p: Tensor, log_q: Tensor, potentials: CountPotentials, posterior: CountPosterior
) -> Tensor:
    """diag(w) + (Var k - 1'w) w w'/(1'w)^2 with w = r rbar: section 2.2 for an exact count, where Var k = 0."""
    # p -> p e^t multiplies Z by a generating function of k, so the expected count has derivative Var k at t = 0.
    step = torch.tensor([-_TILT_STEP, _TILT_STEP], dtype=log_p.dtype, device=log_p.device)
    tilted = log_p + step.reshape(2, *[1] * log_p.ndim)
    low, high = count_posterior(tilted, log_q.expand_as(tilted), potentials).log_r.exp().sum(-1)
    variance = ((high - low) / (2.0 * _TILT_STEP)).clamp(min=0.0)
    w = (posterior.log_r + posterior.log_rbar).exp()
    total = w.sum(-1, keepdim=True)
    share = w / total.clamp(min=torch.finfo(w.dtype).tiny)
    excess = variance[..., None] - total
    return torch.einsum("...i,...j->...ij", excess * share, share)
