"""Bags that were left out choose between two kernels."""

import gpytorch
import numpy as np
import pytest

from bagwise import BagGP, Bags
from bagwise.evidence.reading import CountReading, counted, read_stated
from bagwise.inference.kernel_learning.left_out import FEWEST, PARTS, dealt
from bagwise.models._base import by_left_out_bags, count_kernel


def kernel_of(lengthscale):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 8.0, lengthscale
    return kernel


def smooth_numbers(n_bags=30, size=4, seed=0):
    """Who is positive depends on one number, over all of its range."""
    rng = np.random.default_rng(seed)
    bags = Bags(rng.uniform(-1.7, 1.7, (n_bags * size, 1)), np.repeat(np.arange(n_bags), size))
    return bags, np.bincount(bags.index, bags.X[:, 0] > 0.0).astype(int)


def model_with(kernel, bags, numbers):
    settings = {"evidence": "count", "learn": False, "n_inducing": 30, "random_state": 0, "standardize": False}
    return BagGP(kernel=kernel, **settings).fit(bags, numbers)


def evidence_of(bags, numbers):
    reading = CountReading("count", 1.0)
    return counted(read_stated(numbers, bags, bags, reading), bags, reading).evidence


def preferred(bags, numbers, first, second):
    one, other = (model_with(kernel_of(lengthscale), bags, numbers) for lengthscale in (first, second))
    return by_left_out_bags.prefer_second(one, one.features_, other.features_, bags, evidence_of(bags, numbers))


def test_smooth_kernel_is_preferred_to_a_rough_one_and_not_the_other_way_round():
    bags, numbers = smooth_numbers()
    assert preferred(bags, numbers, 0.02, 1.0)
    assert not preferred(bags, numbers, 1.0, 0.02)


def test_kernel_is_not_preferred_to_itself_nor_by_too_few_bags():
    bags, numbers = smooth_numbers()
    assert not preferred(bags, numbers, 1.0, 1.0)
    few = FEWEST - 1
    assert not preferred(bags[:few], numbers[:few], 0.02, 1.0)


def test_gain_is_what_models_that_never_saw_a_bag_say_about_its_number(monkeypatch):
    bags, numbers = smooth_numbers()
    one, other = (model_with(kernel_of(lengthscale), bags, numbers) for lengthscale in (0.3, 1.0))
    gains = []
    monkeypatch.setattr(by_left_out_bags, "gain_of_second", lambda *given: gains.append(original(*given)) or gains[-1])
    by_left_out_bags.prefer_second(one, one.features_, other.features_, bags, evidence_of(bags, numbers))
    part, expected = dealt(evidence_of(bags, numbers).labels, one.seed_), 0.0
    for k in range(PARTS):
        seen, new = np.flatnonzero(part != k), np.flatnonzero(part == k)
        for lengthscale, sign in ((0.3, -1.0), (1.0, 1.0)):
            model = model_with(kernel_of(lengthscale), bags[seen], numbers[seen])
            model.seed_ = one.seed_
            expected += sign * np.log(model.predict_count_proba(bags[new], numbers[new], numbers[new])).sum()
    assert one.seed_ == other.seed_
    assert gains[0] == pytest.approx(expected, abs=5e-3)


def test_interrupted_question_leaves_a_model_that_answers(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(by_left_out_bags, "gain_of_second", interrupted)
    monkeypatch.setattr(count_kernel, "is_simpler", lambda *given, **named: False)
    bags, _ = smooth_numbers(n_bags=44, size=2)
    coins = np.random.default_rng(0).binomial(2, 0.5, len(bags))
    for model, y in (
        (BagGP(evidence="count", n_inducing=10, random_state=0), coins),
        (BagGP(n_inducing=3, random_state=0), np.arange(len(bags)) % 2),
    ):
        with pytest.raises(KeyboardInterrupt, match="the best one found is kept"):
            model.fit(bags, y)
        assert model.leftovers_ == "shared"
        assert np.isfinite(model.predict_proba(bags)).all()


original = by_left_out_bags.gain_of_second
