"""The sampler of classes: its draw given v against (16.2), and the whole of it by Geweke's joint test."""

import numpy as np
import pytest
import torch
from tests.problems import one_chunk, segments_of

from bagwise.bag_models.classes import ClassChunk, odds_of
from bagwise.inference.chains.class_gibbs import ClassGibbs, class_step
from bagwise.inference.chains.gibbs import Sweep, plan_of
from bagwise.numerics.special import log_ndtr

K = 3
TABLE = torch.tensor(
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=torch.bool
)
SIZES = [4, 3, 4, 2, 1, 2]


def test_signs_are_drawn_with_the_probabilities_of_the_candidates():
    chains, rng = 2000, np.random.default_rng(0)
    phi = torch.from_numpy(rng.normal(-0.4, 1.0, (sum(SIZES), 2)))
    v = torch.from_numpy(rng.normal(size=(2, K)))
    (chunk,) = one_chunk(phi, torch.zeros(len(phi), dtype=torch.float64), SIZES, ClassChunk(TABLE)).chunks
    segments = segments_of(SIZES)
    uniforms = torch.from_numpy(rng.random((2, len(phi), K * chains)))
    seen = {}

    def keep(chunk, m, log_z):
        seen["m"], seen["log_z"] = m, log_z
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bagwise.inference.chains.class_gibbs.answer_of", keep)
        class_step(chunk, plan_of(chunk.evidence, segments, chains), Sweep(v.repeat_interleave(chains, 1), *uniforms))
    positive = (seen["m"].reshape(-1, K, chains) > 0).double()
    f, stated = phi @ v, TABLE.any(1)
    odds = odds_of(f, segments)
    logs = odds.log_weights(TABLE | ~stated[:, None])
    total = torch.logsumexp(logs, 1, keepdim=True)
    r = torch.exp(segments.spread((logs - total)[:, :-1] - odds.some) + log_ndtr(f))
    heard = segments.spread(stated)
    assert (positive.mean(2) - r)[heard].abs().max() < 0.05
    assert (seen["m"][~heard] == 0).all()
    shown = segments.sum(positive).bool().sum(1)  # classes shown by a bag: one of its candidates, or none
    assert (shown[stated] <= 1).all()
    assert (shown[[0, 1, 4]] == 1).all()
    expected = ((odds.none.sum(1) + total[:, 0])[stated]).sum()
    torch.testing.assert_close(seen["log_z"], expected.expand(K * chains))


def prior_and_chain(n):
    """v and classes of all bags by rejection, and by alternating sweeps of the sampler with new classes given v."""
    rng, sizes, columns = np.random.default_rng(1), [2, 1, 2], 2
    phi = np.column_stack([rng.normal(size=5), np.full(5, 1.2)])
    starts = np.array([0, 2, 3])

    def shown(v, rng):
        return np.maximum.reduceat(phi @ v + rng.normal(size=(5, columns)) > 0, starts)

    direct = []
    while len(direct) < n:
        v = rng.normal(size=(2, columns))
        if (shown(v, rng).sum(1) == 1).all():
            direct.append(v.ravel())
    table = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=bool)
    v, chain = direct[0].reshape(2, columns), []
    for sweep in range(n):
        while True:  # new classes given v, the first bag telling neither, the second one of two, the third its own
            y = shown(v, rng)
            if (y.sum(1) == 1).all():
                break
        table[1:, :2] = y[1:]
        chunks = one_chunk(
            torch.from_numpy(phi),
            torch.zeros(5, dtype=torch.float64),
            sizes,
            ClassChunk(torch.from_numpy(table.copy())),
        )
        sampler = ClassGibbs(chunks, torch.ones(3, columns), n_rows=5, n_chains=1, seed=sweep)
        sampler.resume(torch.from_numpy(v), 0)
        sampler.sweep()
        v = sampler.weights.numpy()
        chain.append(v.ravel())
    return np.array(direct), np.array(chain)


@pytest.mark.statistical
def test_class_sampler_passes_gewekes_joint_test():
    direct, chain = prior_and_chain(6_000)
    for moment in (lambda x: x, np.square, lambda x: x[:, :2] * x[:, 2:]):
        one, other = moment(direct), moment(chain)
        batches = other.reshape(60, -1, other.shape[1]).mean(1)
        error = np.sqrt(one.var(0) / len(one) + batches.var(0, ddof=1) / len(batches))
        assert (np.abs(one.mean(0) - other.mean(0)) < 4 * error).all()
