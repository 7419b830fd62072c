"""Gibbs sampling for bags of one class out of many: the class of every bag, then signs, then v (theory sections 3, 16).

Given v the class of a bag is drawn from the softmax over its candidates of log(Z1/Z0); given its class a bag is a label
in every column, positive in one and negative in the others, and ``draw_by_labels`` does the rest. So m is drawn exactly
given v, and the chain is one in v alone, as with labels.

The uniform that picks the class of a bag is the first of its signs in column 0. Signs are drawn in the column of the
class only; where that is column 0 it takes the uniform of column 1, which no one else then needs.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bagwise.bag_models.classes import ClassOdds, odds_of
from bagwise.inference.chains.gibbs import DrawPlan, Gibbs, Sweep, answer_of, draw_by_labels, scores_of
from bagwise.inference.chunks import Chunk, Sums
from bagwise.numerics.segments import Segments


def class_step(chunk: Chunk, plan: DrawPlan, sweep: Sweep) -> tuple[Sums, DrawPlan]:
    """Draw the class of every bag and every m̃ of the chunk given v; answer with what v needs to know of them."""
    z, own = scores_of(chunk, sweep)
    table, segments = chunk.evidence.table, chunk.design.segments
    log_w, log_z = _class_weights(z, table, segments, plan.n_chains)
    shown = _drawn_classes(log_w, own.signs[plan.starts, : plan.n_chains])
    stated = table.any(1)[:, None]
    positive, negative = shown & stated, ~shown & stated
    drawn = replace(plan, positive=positive, negative=negative, positive_rows=segments.spread(positive))
    signs = torch.cat([own.signs[:, plan.n_chains : 2 * plan.n_chains], own.signs[:, plan.n_chains :]], dim=1)
    m, _ = draw_by_labels(z, segments, drawn, own._replace(signs=signs))
    if plan.unstated is not None:
        m.masked_fill_(plan.unstated, 0.0)
    return answer_of(chunk, m, log_z.sum(0).repeat(table.shape[1] - 1)), plan


def _class_weights(z: Tensor, table: Tensor, segments: Segments, n_chains: int) -> tuple[Tensor, Tensor]:
    """log w of the classes, (b, C, K + 1), and log Z (b, C), from scores (n, K C)."""
    odds = odds_of(z, segments)
    none, some = _by_chain(odds.none, n_chains), _by_chain(odds.some, n_chains)
    stated = table.any(1)[:, None]
    logs = ClassOdds(none, some).log_weights((table | ~stated)[:, None])
    total = torch.logsumexp(logs, dim=2)
    return logs - total[:, :, None], torch.where(stated, none.sum(2) + total, torch.zeros_like(total))


def _by_chain(values: Tensor, n_chains: int) -> Tensor:
    """(b, K C), chains of one column side by side, as (b, C, K)."""
    return values.reshape(len(values), -1, n_chains).mT


def _drawn_classes(log_w: Tensor, u: Tensor) -> Tensor:
    """(b, K C) whether a column is that of the drawn class; u (b, C)."""
    reached = log_w.exp().cumsum(2)
    chosen = (reached >= (u * reached[:, :, -1])[:, :, None]).to(torch.int8).argmax(2)
    shown = torch.nn.functional.one_hot(chosen, log_w.shape[2])[:, :, :-1].bool()
    return shown.mT.reshape(len(log_w), -1)


class ClassGibbs(Gibbs):
    """As ``Gibbs``, with ``class_step`` in place of the draws for counts."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._step = class_step
