"""What to label next: utilities against quadrature and enumeration, batches without repetitions, honest refusals."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from tests.predict.test_bags import some_posterior
from tests.problems import features_of, random_bags, random_labels

from bagwise import BagGP, Bags, MILGPProbit
from bagwise.active import LARGEST_EXACT_BATCH, Suggestions, suggest
from bagwise.bag_models.rules import AtLeastOne
from bagwise.exceptions import BagDataError
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import PROBIT
from bagwise.predict.points import points_of


def entropy(p):
    p = np.clip(p, 1e-300, 1.0)
    q = np.clip(1.0 - p, 1e-300, 1.0)
    return -(p * np.log(p) + q * np.log(q))


def chances(model, bags, column=0):
    """P(the bag is positive | v) for every draw, bag after bag: (B, S)."""
    phi, kappa = model.features_.transform(bags)
    v = points_of(model.posterior_, model.seed_).weights[column].numpy()
    negative = norm.cdf(-phi @ v / np.sqrt(1 + kappa)[:, None])
    return 1 - np.stack([negative[a:b].prod(0) for a, b in itertools.pairwise(bags.offsets)])


def joint_information(p):
    """I(y_1 … y_m; v) by going through all 2^m joint outcomes of labels with chances p (m, S)."""
    total = 0.0
    for labels in itertools.product([0, 1], repeat=len(p)):
        chance = np.prod([row if y else 1 - row for y, row in zip(labels, p, strict=True)], axis=0).mean()
        total -= chance * np.log(chance) if chance > 0 else 0.0
    return total - entropy(p).mean(1).sum()


def posed(model, posterior, features=None):
    """A fitted model with another posterior."""
    model.posterior_ = posterior
    if features is not None:
        model.features_ = features
    return model


def independent(model):
    """With leftovers that instances do not share, as ``chances`` has them."""
    model.rule_ = AtLeastOne(shares=False)
    return model


@pytest.fixture
def fitted():
    rng = np.random.default_rng(7)
    bags = random_bags(rng, n_bags=30, sizes=(1, 6), n_features=3)
    model = MILGPProbit(random_state=0, bias=5.0, n_inducing=15).fit(bags, random_labels(rng, bags))
    return independent(model), bags


@pytest.fixture
def two_labels():
    rng = np.random.default_rng(8)
    bags = random_bags(rng, n_bags=30, sizes=(1, 6), n_features=3)
    y = np.stack([random_labels(rng, bags), random_labels(rng, bags)], axis=1)
    return independent(MILGPProbit(random_state=0, bias=5.0, n_inducing=15).fit(bags, y)), bags


def far_away(spread, mean=0.0):
    """A model that knows f = 1 · v₂ far from its data, v₂ ~ N(mean, spread²), κ = 1; and rows to ask it about."""
    bags = random_bags(np.random.default_rng(0))
    model = MILGPProbit(random_state=0, n_inducing=1, max_iter=1).fit(
        bags, random_labels(np.random.default_rng(0), bags)
    )
    factors = torch.diag(torch.tensor([1.0, 1.0 / spread]).double())[None]
    posterior = GaussianPosterior(
        torch.tensor([[0.0], [mean]]).double(), factors, torch.zeros(1, dtype=torch.int64), PROBIT
    )
    return posed(model, posterior, features_of(bags, n_inducing=1, bias=1.0)), np.full((1, 2), 1e3)


# ---------------------------------------------------------------- utilities


def test_bald_of_bags_and_instances_comes_from_the_same_draws(fitted):
    model, bags = fitted
    found = suggest(model, bags)
    p = chances(model, bags)
    expected = entropy(p.mean(1)) - entropy(p).mean(1)
    np.testing.assert_allclose(found.utilities, expected, atol=1e-12)
    assert found.indices[0] == expected.argmax()
    single = suggest(model, bags, what="instances")
    p = chances(model, Bags(bags.X, np.arange(bags.n_instances)))
    np.testing.assert_allclose(single.utilities, entropy(p.mean(1)) - entropy(p).mean(1), atol=1e-12)
    np.testing.assert_allclose(single.gains, single.utilities[single.indices])


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize(("spread", "mean"), [(0.3, 0.0), (2.0, -1.0), (5.0, 2.0)])
def test_bald_equals_quadrature(size, spread, mean, shares):
    """Of copies of a row whose leftover has variance 1: one for all of them, or one for each."""
    model, x = far_away(spread, mean)
    model.rule_ = AtLeastOne(shares=shares)
    v = np.linspace(mean - 9 * spread, mean + 9 * spread, 2_001)
    weight = norm.pdf(v, mean, spread) * (v[1] - v[0])
    p = 1 - norm.cdf(-v / np.sqrt(2)) ** size
    if shares:
        r = np.linspace(-8, 8, 201)
        p = (1 - norm.cdf(-v[:, None] - r) ** size) @ (norm.pdf(r) * (r[1] - r[0]))
    expected = entropy(weight @ p) - weight @ entropy(p)
    bag = Bags(np.repeat(x, size, axis=0), np.zeros(size))
    assert suggest(model, bag).utilities[0] == pytest.approx(expected, abs=2e-3)


def test_entropy_is_that_of_the_predicted_probability(fitted):
    model, bags = fitted
    found = suggest(model, bags, strategy="entropy", n=4)
    expected = entropy(model.predict_proba(bags)[:, 1])
    np.testing.assert_allclose(found.utilities, expected, atol=1e-12)
    np.testing.assert_array_equal(found.indices, np.argsort(-expected)[:4])
    single = suggest(model, bags, what="instances", strategy="entropy")
    np.testing.assert_allclose(single.utilities, entropy(model.predict_instance_proba(bags)[:, 1]), atol=1e-12)


def test_bald_ignores_what_nobody_can_know():
    """Far from the data f is known to be 0: a fair coin, whose label teaches nothing."""
    model, x = far_away(1e-6)
    bag = Bags(x, ["coin"])
    assert suggest(model, bag, strategy="entropy").gains[0] == pytest.approx(np.log(2), abs=1e-6)
    assert suggest(model, bag).gains[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("mean", [-1e3, 1e3])
def test_certain_labels_have_no_utility(mean):
    model, x = far_away(1.0, mean)
    bags = Bags(np.repeat(x, 6, axis=0), [0, 0, 1, 1, 1, 2])
    for strategy in ("bald", "entropy"):
        found = suggest(model, bags, strategy=strategy, n=3)
        np.testing.assert_array_equal(found.utilities, 0.0)
        np.testing.assert_array_equal(found.indices, [0, 1, 2])
        np.testing.assert_array_equal(found.gains, 0.0)


def test_utilities_of_label_columns_add(two_labels):
    model, bags = two_labels
    both = [chances(model, bags, column) for column in (0, 1)]
    expected = sum(entropy(p.mean(1)) - entropy(p).mean(1) for p in both)
    np.testing.assert_allclose(suggest(model, bags).utilities, expected, atol=1e-12)
    expected = entropy(model.predict_proba(bags)).sum(1)
    np.testing.assert_allclose(suggest(model, bags, strategy="entropy").utilities, expected, atol=1e-12)


def test_order_and_company_change_no_utility(fitted, monkeypatch):
    model, bags = fitted
    utilities = suggest(model, bags).utilities
    order = np.random.default_rng(0).permutation(len(bags))
    np.testing.assert_allclose(suggest(model, bags[order]).utilities, utilities[order], atol=1e-10)
    assert suggest(model, bags[5]).utilities[0] == pytest.approx(utilities[5], abs=1e-10)
    monkeypatch.setattr("bagwise.numerics.blocks.BLOCK", 50)
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", 7)
    np.testing.assert_allclose(suggest(model, bags).utilities, utilities, atol=1e-10)


def test_a_bag_of_ten_thousand_is_a_candidate(fitted):
    model, _ = fitted
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(10_003, 3)), np.repeat([0, 1], [10_000, 3]))
    found = suggest(model, bags, n=2)
    assert np.isfinite(found.utilities).all()
    assert suggest(model, bags, what="instances", n=3).utilities.shape == (10_003,)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("n", [2, 3, 4])
def test_gains_of_a_batch_equal_enumeration(fitted, n):
    model, bags = fitted
    found = suggest(model, bags, n=n)
    p = chances(model, bags)
    assert found.gains.sum() == pytest.approx(joint_information(p[found.indices]), abs=1e-10)
    for m in range(1, n):
        before = list(found.indices[:m])
        known = joint_information(p[before])
        gains = [joint_information(p[[*before, b]]) - known if b not in before else -1 for b in range(len(bags))]
        assert found.indices[m] == np.argmax(gains)
        assert found.gains[m] == pytest.approx(max(gains), abs=1e-10)


def test_gains_of_a_batch_of_label_columns_add(two_labels):
    model, bags = two_labels
    found = suggest(model, bags, n=3)
    expected = sum(joint_information(chances(model, bags, k)[found.indices]) for k in (0, 1))
    assert found.gains.sum() == pytest.approx(expected, abs=1e-10)


def test_gains_of_two_labels_equal_quadrature():
    """Two labels about one v, by the trapezoid rule over v: the second adds less than the first."""
    model, x = far_away(2.0)
    found = suggest(model, Bags(np.repeat(x, 2, axis=0), [0, 1]), n=2)
    v = np.linspace(-18, 18, 20_001)
    weight = norm.pdf(v, scale=2.0) * (v[1] - v[0])
    p = norm.cdf(v / np.sqrt(2))
    joint = [weight @ (a * b) for a, b in itertools.product([p, 1 - p], repeat=2)]
    expected = -sum(c * np.log(c) for c in joint) - 2 * weight @ entropy(p)
    assert found.gains.sum() == pytest.approx(expected, abs=3e-3)
    assert found.gains[1] < found.gains[0] - 0.05


@pytest.mark.parametrize("n", [2, 4, LARGEST_EXACT_BATCH + 3])
def test_copies_are_not_all_chosen(n):
    """Forty copies of the most informative bag, and others: the n best by themselves are copies, a batch is not."""
    rng = np.random.default_rng(3)
    training = random_bags(rng, n_bags=20)
    features, posterior = features_of(training, n_inducing=12), some_posterior(rng, 12)
    posterior = GaussianPosterior(0.2 * posterior.mean, 0.1 * posterior.factors, posterior.factor_of, PROBIT)
    model = MILGPProbit(random_state=0, n_inducing=12).fit(training, random_labels(rng, training))
    posed(model, posterior, features)
    best = training[int(suggest(model, training).indices[0])].X
    copies = [best + 1e-6 * rng.normal(size=best.shape) for _ in range(40)]
    found = suggest(model, Bags.from_list([*copies, *(X for _, X in training)]), n=n)
    assert (np.argsort(-found.utilities)[:n] < 40).all()
    assert (found.indices < 40).sum() <= 1 + n // 4
    assert len(set(found.indices)) == n
    assert (np.diff(found.gains) <= 1e-12).all()


def test_large_batches_are_bounded_by_their_groups(fitted):
    """What a member of a large batch is said to add is at least what it adds, by enumeration of all before it."""
    model, bags = fitted
    n = LARGEST_EXACT_BATCH + 3
    found = suggest(model, bags, n=n)
    p = chances(model, bags)
    exact = np.diff([0.0, *(joint_information(p[found.indices[:m]]) for m in range(1, n + 1))])
    np.testing.assert_allclose(found.gains[:LARGEST_EXACT_BATCH], exact[:LARGEST_EXACT_BATCH], atol=1e-10)
    assert (found.gains >= exact - 1e-10).all()
    assert (found.gains <= found.utilities[found.indices] + 1e-10).all()


@pytest.mark.parametrize("shortlist", [1, 3, 10])
def test_a_short_list_that_grows_changes_nothing(fitted, two_labels, monkeypatch, shortlist):
    for model, bags in (fitted, two_labels):
        expected = suggest(model, bags, n=9)
        with monkeypatch.context() as patch:
            patch.setattr("bagwise.active._SHORTLIST", shortlist)
            patch.setattr("bagwise.active._LEAST_LISTED", shortlist)
            found = suggest(model, bags, n=9)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.gains, expected.gains, atol=1e-12)


def test_everything_may_be_chosen(fitted):
    model, bags = fitted
    for strategy in ("bald", "entropy", "random"):
        found = suggest(model, bags, n=len(bags), strategy=strategy)
        assert sorted(found.indices) == list(range(len(bags)))


# ---------------------------------------------------------------- ties, chance, names


def test_ties_fall_to_the_first_or_to_the_random_state():
    model, x = far_away(1.0)
    bags = Bags(np.repeat(x, 50, axis=0), np.arange(50))
    for strategy in ("bald", "entropy"):
        assert suggest(model, bags, strategy=strategy).indices[0] == 0
        chosen = [int(suggest(model, bags, strategy=strategy, random_state=s).indices[0]) for s in range(8)]
        assert chosen == [int(suggest(model, bags, strategy=strategy, random_state=s).indices[0]) for s in range(8)]
        assert len(set(chosen)) > 3


def test_random_goes_by_its_state_and_treats_all_alike(fitted):
    model, bags = fitted
    first = suggest(model, bags, strategy="random", n=10, random_state=1)
    np.testing.assert_array_equal(first.indices, suggest(model, bags, strategy="random", n=10, random_state=1).indices)
    times = np.zeros(len(bags))
    for seed in range(300):
        times[suggest(model, bags, strategy="random", n=10, random_state=seed).indices] += 1
    # Each bag is drawn 100 times on average with variance 300 · (1/3)(2/3) = 67: five standard deviations are 41.
    assert np.abs(times - 100).max() < 41


def test_suggestions_name_bags_and_rows(fitted):
    model, bags = fitted
    shuffled = np.random.default_rng(0).permutation(bags.n_instances)
    X, keys = bags.X[shuffled], [f"b{number}" for number in bags.index[shuffled]]
    mixed = Bags(X, keys)
    whole = suggest(model, mixed, n=3)
    assert whole.ids == tuple(mixed.ids[number] for number in whole.indices)
    assert whole.rows is None
    assert list(whole.to_frame().columns) == ["bag", "utility"]
    single = suggest(model, mixed, what="instances", n=3)
    for index, name, row in zip(single.indices, single.ids, single.rows, strict=True):
        assert keys[row] == name
        np.testing.assert_array_equal(X[row], mixed.X[index])
    expected = pd.DataFrame({"bag": single.ids, "row": single.rows, "utility": single.gains})
    pd.testing.assert_frame_equal(single.to_frame(), expected)
    assert len(single) == 3
    assert isinstance(single, Suggestions)
    with pytest.raises(dataclasses.FrozenInstanceError):
        single.what = "bags"


def test_known_instances_are_not_asked_for(fitted):
    model, bags = fitted
    known = np.full(bags.n_instances, np.nan)
    best = suggest(model, bags, what="instances", n=5).indices
    known[best] = 1.0
    found = suggest(model, bags.with_known(known), what="instances", n=5)
    assert not set(found.indices) & set(best)
    assert np.isnan(found.utilities[best]).all()
    assert np.isfinite(np.delete(found.utilities, best)).all()
    known[:] = 0.0
    with pytest.raises(BagDataError, match="n=1: there are only 0 instances to choose from"):
        suggest(model, bags.with_known(known), what="instances")


def test_plain_arrays_are_bags_of_one(fitted):
    model, bags = fitted
    found = suggest(model, bags.X, n=2)
    np.testing.assert_array_equal(found.indices, suggest(model, bags, what="instances", n=2).indices)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"what": "rows"}, "what='rows': expected one of 'bags', 'instances'"),
        ({"strategy": "best"}, "strategy='best': expected one of 'bald', 'entropy', 'random'"),
        ({"n": 0}, "n=0: expected a whole number of at least 1"),
        ({"n": 2.0}, "n=2.0: expected a whole number"),
        ({"n": 31}, "n=31: there are only 30 bags to choose from"),
        ({"random_state": "x"}, "random_state='x': expected"),
    ],
)
def test_bad_questions_are_refused(fitted, changes, message):
    with pytest.raises(BagDataError, match=message):
        suggest(*fitted, **changes)


def test_models_that_cannot_be_asked_are_refused(fitted):
    model, bags = fitted
    with pytest.raises(NotFittedError):
        suggest(MILGPProbit(), bags)
    with pytest.raises(BagDataError, match="3 features"):
        suggest(model, np.zeros((4, 2)))
    with pytest.raises(BagDataError, match="sampled posterior; MILGPProbit has none"):
        suggest(posed(model, None), bags)


def test_suggest_ranks_bags_and_instances_by_what_their_class_would_teach():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    centres = 3.0 * np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    bags = Bags(np.repeat(centres[y], 2, axis=0) + rng.normal(0, 0.5, (60, 2)), np.repeat(np.arange(30), 2))
    model = BagGP(evidence="class", learn=False, n_inducing=15, random_state=0).fit(bags, y)
    between = Bags(np.array([[3.0, 0.0], [0.9, 1.6], [-1.5, 2.4], [0.9, 1.6]]), [0, 1, 2, 1])
    found = suggest(model, between, n=2)
    assert found.indices[0] == 1  # between two classes there is more to learn than in the midst of one
    assert (found.utilities >= 0).all()
    assert found.gains[0] == found.utilities.max() > 2 * found.utilities[0]
    assert suggest(model, between, strategy="entropy").indices.tolist() == [1]
    assert suggest(model, between, what="instances", n=4).utilities.shape == (4,)
