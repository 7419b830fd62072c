"""Negative bags cut into pieces: none of all rows is positive where none of the rows of any piece is.

    P(no positive | v) = Π cdf(−zᵢ) over the rows of the bag = the product of the same over its pieces            (13.5)

A label that is never wrong is therefore the same evidence as that label of every piece, and an inference that has one
site for what it takes to be a bag has several for a negative bag, which together say much more of single rows.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.evidence.counts import CountEvidence


class Pieces(NamedTuple):
    """The bags of a chunk, those that are cut being several."""

    offsets: Tensor  # (p + 1,) where they lie among the rows
    bag: Tensor  # (p,) the bag of each
    first: Tensor  # (b,) the first piece of each bag


def piece_rows(evidence: CountEvidence, pieces: int) -> NDArray[np.int64]:
    """(K,) rows of a piece at most, for every label column, if all make about so many; 0 where bags stay whole."""
    if evidence.label_noise > 0:
        return np.zeros(evidence.labels.shape[1], dtype=np.int64)
    negative: NDArray[np.int64] = np.diff(evidence.offsets) @ (evidence.labels == 0).astype(np.int64)  # rows
    return -(-negative // pieces)


def cut_bags(labels: NDArray[np.float64], sizes: NDArray[np.int64], rows: int, device: torch.device) -> Pieces | None:
    """Bags of label 0 in pieces of equal size, no more than so many rows each; None where every bag stays whole."""
    counts = np.where(labels == 0, -(-sizes // max(rows, 1)), 1) if rows else np.ones_like(sizes)
    if (counts == 1).all():
        return None
    bag = np.repeat(np.arange(len(sizes)), counts)
    first = np.cumsum(counts) - counts
    within = np.arange(len(bag)) - first[bag]
    starts = (np.cumsum(sizes) - sizes)[bag] + within * sizes[bag] // counts[bag]
    parts = np.append(starts, sizes.sum()), bag, first
    return Pieces(*(torch.as_tensor(part, device=device) for part in parts))
