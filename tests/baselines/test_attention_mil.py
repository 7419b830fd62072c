"""The attention network against the formula and torch's own optimiser."""

import numpy as np
import pytest
import torch

from bagwise import Bags
from bagwise.baselines import AttentionMIL
from bagwise.baselines.attention_mil import AdamW, bag_logits
from bagwise.numerics.segments import Segments


def test_attention_network_is_the_weighted_mean_of_embedded_instances():
    rng = np.random.default_rng(0)
    shapes = ((2, 3), (3,), (3, 2), (2,), (3, 2), (2,), (2,), (3,), (1,))
    weights = tuple(torch.from_numpy(rng.normal(size=shape)) for shape in shapes)
    X, sizes = rng.normal(size=(5, 2)), [2, 3]
    W, b, V, v, U, u, m, d, c = (weight.numpy() for weight in weights)
    logits, attention = bag_logits(torch.from_numpy(X), Segments(torch.tensor([0, 2, 5])), weights)
    start = 0
    for bag, size in enumerate(sizes):
        h = np.maximum(X[start : start + size] @ W + b, 0)
        raw = (np.tanh(h @ V + v) / (1 + np.exp(-(h @ U + u)))) @ m
        a = np.exp(raw) / np.exp(raw).sum()
        assert np.allclose(attention[start : start + size], a)
        assert logits[bag].item() == pytest.approx(((a @ h) @ d + c).item())
        start += size


def test_adam_takes_the_steps_of_torch():
    start = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    own, other = start.clone().requires_grad_(), start.clone().requires_grad_()
    first, second = AdamW((own,), 0.1, 0.05), torch.optim.AdamW([other], lr=0.1, weight_decay=0.05)
    for _ in range(5):
        first.step(torch.autograd.grad((own**4).sum(), (own,)))
        second.zero_grad()
        (other**4).sum().backward()
        second.step()
    assert torch.allclose(own, other, atol=1e-7)


def test_attention_sums_to_one_and_points_at_the_positive_instances():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    rows = [rng.normal(size=(5, 2)) + (np.arange(5)[:, None] == 0) * 5.0 * label for label in y]
    bags = Bags.from_list(rows)
    model = AttentionMIL(8, 4, n_epochs=20, learning_rate=0.02, cv=2, random_state=0).fit(bags, y)
    attention = model.predict_attention(bags).reshape(40, 5)
    assert np.allclose(attention.sum(axis=1), 1.0)
    assert (attention[y == 1].argmax(axis=1) == 0).mean() > 0.9
