"""The law of the number of positives in a bag whose instances are independent: Poisson-binomial, for many bags at once.

Bags of similar size are worked on side by side, padded with instances that are certainly negative, and the laws are
summed over the columns (draws of the latent function), so that nothing larger than one law per bag is kept.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from bagwise.numerics.links import Link

LARGEST_TABLE_BAG = 128  # larger bags go through their Fourier transform, which is then faster
FOURIER_ERROR = 1e-12  # in total variation, for each column
_SIZE_RATIO = 1.25  # bags of one bucket differ in size by at most this factor
_CELLS = {"cpu": 2**17}  # numbers worked on at once: cache on a processor, memory on an accelerator
_CELLS_ELSEWHERE = 2**24
_BLOCK = 32  # instances whose law is tabulated before it is transformed


def summed_count_laws(scores: Tensor, sizes: Tensor, link: Link) -> Tensor:
    """Σ_s P(k_b = k | scores[:, s]) for k = 0 … n_b: flat, n_b + 1 entries per bag, bag after bag.

    ``scores`` is (N, S), the instances of a bag together, and the link makes probabilities of them; ``sizes`` (B,) are
    n_b. Up to ``LARGEST_TABLE_BAG``
    instances every entry keeps its relative accuracy, as only positive numbers are added and multiplied. Above, the
    law of each column is off by at most ``FOURIER_ERROR`` altogether, so smaller entries have no meaning.
    """
    laws = torch.zeros(int(sizes.sum()) + len(sizes), dtype=torch.float64, device=scores.device)
    for bags in _buckets(sizes):
        add = _add_tables if int(sizes[bags].max()) <= LARGEST_TABLE_BAG else _add_transforms
        for some, columns in _pieces(sizes[bags], scores):
            p, q = link.chances(_gather(scores[:, columns], sizes, bags[some]))
            first = (sizes.cumsum(0) - sizes + torch.arange(len(sizes), device=sizes.device))[bags[some]]
            add(laws, p, q, first, sizes[bags[some]])
    return laws


def _buckets(sizes: Tensor) -> Iterator[Tensor]:
    """Bag numbers, those of similar size together."""
    kind = (sizes.double().log() / math.log(_SIZE_RATIO) + 1e-9).floor().long()
    kind = torch.where(sizes > LARGEST_TABLE_BAG, kind + 1024, kind)
    kind, order = kind.sort(stable=True)
    ends = (kind.diff() != 0).nonzero().squeeze(1) + 1
    yield from order.tensor_split(ends.cpu())


def _pieces(sizes: Tensor, scores: Tensor) -> Iterator[tuple[slice, slice]]:
    """Bags of a bucket and columns of the scores whose tables fit the cache together."""
    largest = int(sizes.max())
    cells = largest + 1 if largest <= LARGEST_TABLE_BAG else _window(largest / 4.0, largest)
    at_once = max(1, _CELLS.get(scores.device.type, _CELLS_ELSEWHERE) // cells)
    columns = min(scores.shape[1], at_once)
    for bag in range(0, len(sizes), at_once // columns):
        for column in range(0, scores.shape[1], columns):
            yield slice(bag, bag + at_once // columns), slice(column, column + columns)


def _gather(scores: Tensor, sizes: Tensor, bags: Tensor) -> Tensor:
    """(positions, bags, columns); an instance that is not there has the score -inf."""
    position = torch.arange(int(sizes[bags].max()), device=scores.device)[:, None]
    rows = (sizes.cumsum(0) - sizes)[bags] + position
    absent = position >= sizes[bags]
    return scores[rows.masked_fill(absent, 0)].double().masked_fill_(absent[..., None], -torch.inf)


def _add_tables(laws: Tensor, p: Tensor, q: Tensor, first: Tensor, sizes: Tensor) -> None:
    law = _table(p.flatten(1), q.flatten(1)).reshape(-1, *p.shape[1:]).sum(2)
    count = torch.arange(len(law), device=law.device)[:, None]
    inside = count <= sizes
    laws.index_add_(0, (first + count)[inside], law[inside])


def _table(p: Tensor, q: Tensor) -> Tensor:
    """(n, columns) -> (n + 1, columns): one instance after the other, P(k) <- P(k) q + P(k - 1) p."""
    before, after = (p.new_zeros(len(p) + 1, p.shape[1]) for _ in range(2))
    before[0] = 1.0
    for i in range(len(p)):
        torch.mul(before[: i + 2], q[i], out=after[: i + 2])
        after[1 : i + 2].addcmul_(before[: i + 1], p[i])
        before, after = after, before
    return before


# ---------------------------------------------------------------- large bags
#
# The characteristic function of the count is the product of those of its parts. At the frequencies 2πj/m it determines
# the law of the count modulo m, and with it the law itself once all but a negligible part of it lies within m counts.
# The count of a bag of n varies by √n only: n √n operations instead of n².


def _add_transforms(laws: Tensor, p: Tensor, q: Tensor, first: Tensor, sizes: Tensor) -> None:
    n, shape = len(p), p.shape[1:]
    length = _window(float((p * q).sum(0).max()), n)
    lowest = (p.sum(0).round().long() - length // 2).flatten() if length <= n else first.new_zeros(shape.numel())
    law = _law_within(_spectrum(p.flatten(1), q.flatten(1), length), lowest, length)
    count = lowest + torch.arange(length, device=p.device)[:, None]
    bag = torch.arange(shape[0], device=p.device).repeat_interleave(shape[1]).expand_as(count)
    inside = (count >= 0) & (count <= sizes[bag])
    laws.index_add_(0, (first[bag] + count)[inside], law[inside])


def _window(variance: float, n: int) -> int:
    """A number of counts around the mean outside of which the law is negligible, at most n + 1.

    Bernstein: P(|k - mean| > t) <= 2 exp(-t²/2 / (variance + t/3)), which is ε at t = l/3 + sqrt(l²/9 + 2 l variance)
    with l = log(2/ε).
    """
    log_odds = math.log(2.0 / FOURIER_ERROR)
    reach = math.ceil(log_odds / 3.0 + math.sqrt(log_odds * log_odds / 9.0 + 2.0 * log_odds * variance)) + 1
    return min(2 * reach + 1, n + 1)


def _spectrum(p: Tensor, q: Tensor, length: int) -> Tensor:
    """E[exp(-2πi j k / length)] for j = 0 … length // 2, (frequencies, columns)."""
    frequency = torch.arange(length // 2 + 1, device=p.device)[:, None]
    turns = (frequency * torch.arange(_BLOCK + 1, device=p.device) % length).to(p.dtype) / length
    real, imaginary = torch.cos(2.0 * math.pi * turns), -torch.sin(2.0 * math.pi * turns)
    spectrum = torch.ones(len(turns), p.shape[1], dtype=torch.complex128, device=p.device)
    tables = _table(_side_by_side(p, 0.0), _side_by_side(q, 1.0)).reshape(_BLOCK + 1, -1, p.shape[1])
    for table in tables.unbind(1):
        spectrum *= torch.complex(real @ table, imaginary @ table)
    return spectrum


def _side_by_side(x: Tensor, padding: float) -> Tensor:
    """(n, columns) -> (_BLOCK, blocks of instances * columns)."""
    blocks = -(-len(x) // _BLOCK)
    whole = torch.nn.functional.pad(x, (0, 0, 0, blocks * _BLOCK - len(x)), value=padding)
    return whole.reshape(blocks, _BLOCK, -1).transpose(0, 1).reshape(_BLOCK, -1)


def _law_within(spectrum: Tensor, lowest: Tensor, length: int) -> Tensor:
    """P(k = lowest + m) for m = 0 … length - 1, (length, columns)."""
    frequency = torch.arange(len(spectrum), device=spectrum.device)[:, None]
    angle = (frequency * lowest % length).double() * (2.0 * math.pi / length)
    law: Tensor = torch.fft.irfft(spectrum * torch.polar(torch.ones_like(angle), angle), n=length, dim=0)
    return law.clamp_(min=0.0)
