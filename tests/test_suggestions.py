"""Suggestions by information: against enumeration over the draws of the model, with whatever rule it has."""

import itertools

import numpy as np
import pytest
import torch
from tests.problems import random_bags, random_labels

from bagwise import BagGP, MILGPProbit
from bagwise.active import suggest


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=12, sizes=(1, 4))
    return MILGPProbit(random_state=0, bias=2.0, n_inducing=8, max_iter=5).fit(bags, random_labels(rng, bags)), bags


def chances(model, bags):
    """P(the bag is positive | v) under every draw, (B, S)."""
    (latent,) = model._fitted().latent(bags)
    return -torch.expm1(model.rule_.log_negative(latent, 0)).numpy()


def entropy(p):
    return -sum(np.where(side > 0, side * np.log(np.maximum(side, 1e-300)), 0.0) for side in (p, 1.0 - p))


def information(p):
    """I(labels; v) of bags with chances p (m, S), by going through all joint outcomes."""
    total = 0.0
    for labels in itertools.product([0, 1], repeat=len(p)):
        joint = np.prod([row if label else 1.0 - row for label, row in zip(labels, p, strict=True)], axis=0).mean()
        total -= joint * np.log(joint)
    return total - entropy(p).mean(axis=1).sum()


def test_utility_is_the_information_that_a_label_carries(fitted):
    model, bags = fitted
    found = suggest(model, bags)
    p = chances(model, bags)
    np.testing.assert_allclose(found.utilities, [information(row[None]) for row in p], atol=1e-12)
    assert found.indices.tolist() == [int(np.argmax(found.utilities))]


def test_a_batch_grows_by_what_each_adds_to_those_before(fitted):
    model, bags = fitted
    found, p = suggest(model, bags, n=4), chances(model, bags)
    assert len(set(found.indices.tolist())) == 4
    totals = [information(p[found.indices[: count + 1]]) for count in range(4)]
    np.testing.assert_allclose(np.cumsum(found.gains), totals, atol=1e-10)
    for count in range(1, 4):  # nobody else would have added more
        others = [bag for bag in range(len(bags)) if bag not in found.indices[:count]]
        best = max(information(p[[*found.indices[:count], bag]]) for bag in others)
        assert totals[count] == pytest.approx(best, abs=1e-9)


def test_instances_that_are_known_are_not_asked_for(fitted):
    model, bags = fitted
    known = np.full(bags.n_instances, np.nan)
    best = int(suggest(model, bags, what="instances").indices[0])
    known[best] = 1.0
    found = suggest(model, bags.with_known(known), what="instances", n=bags.n_instances - 1)
    assert best not in found.indices
    assert np.isnan(found.utilities[best])


def test_an_instance_is_asked_for_as_one_of_the_bag_that_it_is_in():
    """Where the size of a bag has an effect by itself, an instance of a large bag is another one than a bag of one."""
    rng = np.random.default_rng(1)
    bags = random_bags(rng, n_bags=30, sizes=(1, 9))
    settings = {"n_inducing": 6, "learn": False, "size_effect": True, "random_state": 0}
    model = BagGP(**settings).fit(bags, (bags.sizes > 4).astype(float))
    found = suggest(model, bags, what="instances", strategy="entropy").utilities
    np.testing.assert_allclose(found, entropy(model.predict_instance_proba(bags)[:, 1]), atol=1e-12)
    by_information = suggest(model, bags, what="instances").utilities
    alone = suggest(model, bags.X, what="instances").utilities
    assert np.abs(by_information - alone).max() > 1e-3
    assert (by_information <= found + 1e-9).all()
