"""Citation-kNN, MILES and attention MIL against their definitions."""

import numpy as np
import pytest
import torch

from bagwise import Bags
from bagwise.baselines import MILES, AttentionMIL, CitationKNN
from bagwise.baselines.attention_mil import AdamW, bag_logits
from bagwise.baselines.citation_knn import nearest_distances
from bagwise.baselines.miles import likeness
from bagwise.datasets import make_bags
from bagwise.numerics.segments import Segments

BAGS, Y, _ = make_bags(24, (2, 5), random_state=0)
BLOCKS = [X for _, X in BAGS]


def distances(A, B):
    return np.sqrt(((A[:, None, :] - B[None, :, :]) ** 2).sum(-1))


def test_distance_of_bags_is_that_of_their_nearest_instances():
    expected = [[distances(A, B).min() for B in BLOCKS] for A in BLOCKS]
    assert np.allclose(nearest_distances(BAGS, BAGS), expected)


def test_references_and_citers_vote():
    train, y = BLOCKS[:16], Y[:16]
    model = CitationKNN(references=2, citers=3, standardize=False, random_state=0).fit(train, y)
    for new, score in zip(BLOCKS[16:], model.machines_[0].machine.scores(BAGS[16:]), strict=True):
        own = [distances(new, X).min() for X in train]
        votes = [y[b] for b in np.argsort(own)[:2]]
        for b in range(16):
            others = sorted(distances(train[b], train[a]).min() for a in range(16) if a != b)
            if sum(other < own[b] for other in others) < 3:
                votes.append(y[b])
        assert score == pytest.approx(2 * np.mean(votes) - 1)


def test_no_citers_leave_the_references():
    model = CitationKNN(references=1, citers=0, standardize=False, random_state=0).fit(BAGS, Y)
    assert np.array_equal(model.machines_[0].machine.scores(BAGS), 2.0 * Y - 1)  # every bag is nearest to itself


def test_citation_knn_tells_bags_apart_whose_instances_are_all_of_one_kind():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    bags = [rng.normal(3 * label, 0.5, size=(4, 2)) for label in y]
    assert CitationKNN(random_state=0).fit(bags[:20], y[:20]).score(bags[20:], y[20:]) == 1.0


def test_likeness_is_that_of_the_nearest_instance():
    concepts = np.random.default_rng(1).normal(size=(7, BAGS.n_features))
    expected = [[np.exp(-0.3 * distances(X, c[None, :]).min() ** 2) for c in concepts] for X in BLOCKS]
    assert np.allclose(likeness(BAGS, concepts, 0.3), expected)


def test_miles_keeps_few_concepts():
    machine = MILES(C=1.0, cv=2, random_state=0).fit(BAGS, Y).machines_[0].machine
    assert 1 <= len(machine.concepts) < len(BAGS)


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
