"""Witnesses of GPMIL: the instances with the largest latent means, weighed as at the end of training."""

import numpy as np
import pytest
from tests.problems import random_bags

from bagwise import GPMIL


@pytest.fixture(scope="module")
def problem():
    bags = random_bags(np.random.default_rng(0), n_bags=12, sizes=(2, 5))
    return bags, np.array([x[:, 0].max() > 0.8 for _, x in bags], dtype=float)


def fitted(problem, **settings):
    return GPMIL(**({"learn": False, "bias": 2.0, "random_state": 0} | settings)).fit(*problem)


def test_the_witness_of_a_bag_has_its_largest_latent_mean(problem):
    bags, _ = problem
    model = fitted(problem)
    mean = model.predict_latent(bags)[0]
    expected = [
        start + np.argmax(part) for start, part in zip(bags.offsets, np.split(mean, bags.offsets[1:-1]), strict=False)
    ]
    assert model.predict_witness(bags).tolist() == expected


@pytest.mark.parametrize(("n_stages", "sharpness"), [(1, 0.1), (2, 1.0), (3, 10.0)])
def test_new_bags_are_weighed_as_at_the_last_temperature(problem, n_stages, sharpness):
    model = fitted(problem, approximation="witness", n_stages=n_stages)
    assert model.rule_.sharpness == pytest.approx(sharpness)


def test_hard_witnesses_have_all_the_weight(problem):
    assert fitted(problem, approximation="witness", witnesses="hard").rule_.sharpness is None
