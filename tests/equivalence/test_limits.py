"""Different words for the same evidence give the same posterior (everything fixed, both inferences)."""

import numpy as np
import pytest
from scipy.stats import norm
from tests.problems import random_bags

from bagwise import BagDataWarning, BagGP, Bags, MILGPProbit
from bagwise.evidence.statements import Evidence, count, fraction, label

NAN = np.nan


@pytest.fixture(scope="module")
def bags():
    return random_bags(np.random.default_rng(0), n_bags=16, sizes=(1, 5))


@pytest.fixture(scope="module")
def y(bags):
    rng = np.random.default_rng(1)
    labels = (rng.random(len(bags)) < 0.5).astype(float)
    labels[:2] = 0.0, 1.0
    return labels


@pytest.fixture(params=["ep", "vi"])
def fit(request, bags):
    """Fit with everything fixed; inducing inputs are given, so that they do not depend on which bags are there."""
    inducing = np.random.default_rng(2).normal(size=(9, bags.n_features))
    tolerance = {"ep": 1e-10, "vi": 1e-9}[request.param]

    def fitted(some, said, **changes):
        settings = {"learn": False, "inference": request.param, "inducing": inducing, "standardize": False}
        settings |= {"tol": tolerance, "random_state": 0, "max_iter": 2000}
        model = BagGP(**settings | changes).fit(some, said)
        assert model.inference_ == request.param
        return model

    return fitted


def same(first, second, tolerance=1e-7):
    """Equal posteriors: of the weights, hence of everything."""
    np.testing.assert_allclose(first.posterior_.mean, second.posterior_.mean, atol=tolerance)
    for k in range(first.posterior_.mean.shape[1]):
        ours, theirs = (model.posterior_.factors[model.posterior_.factor_of[k]] for model in (first, second))
        np.testing.assert_allclose(ours, theirs, atol=tolerance)


def known_everywhere(bags, values):
    return bags.with_known(np.repeat(values, bags.sizes))


@pytest.mark.parametrize("confidence", [0.01, 1.0, 1000.0])
def test_fractions_zero_and_one_are_all_instances_known(fit, bags, y, confidence):
    by_fraction = fit(bags, y, evidence="fraction", confidence=confidence)
    same(by_fraction, fit(known_everywhere(bags, y), np.full(len(bags), NAN)))


def test_fractions_zero_and_one_are_the_extreme_counts(fit, bags, y):
    by_count = fit(bags, np.column_stack([y * bags.sizes, y * bags.sizes]), evidence="count")
    same(fit(bags, y, evidence="fraction"), by_count)


def test_evidence_of_fractions_differs_by_their_densities_only(fit, bags, y):
    """Beta(0; 1, χ + 1) = Beta(1; χ + 1, 1) = χ + 1 for every bag, a constant that no posterior feels."""
    by_fraction = fit(bags, y, evidence="fraction", confidence=4.0)
    by_count = fit(bags, np.column_stack([y * bags.sizes, y * bags.sizes]), evidence="count")
    expected = by_count.log_evidence_ + len(bags) * np.log(5.0)
    assert by_fraction.log_evidence_ == pytest.approx(expected, abs=1e-6)


def test_bags_of_one_are_supervised_classification(fit, bags):
    rng = np.random.default_rng(3)
    z = (rng.random(bags.n_instances) < 0.5).astype(float)
    singles = Bags(bags.X, np.arange(bags.n_instances))
    by_label = fit(singles, z)
    same(by_label, fit(bags.X, z))  # a plain 2-D array
    same(by_label, fit(singles.with_known(z), np.full(len(singles), NAN)))
    same(by_label, fit(bags.with_known(z), np.full(len(bags), NAN)))  # known one by one, whatever bag they are in
    assert by_label.log_evidence_ == pytest.approx(
        fit(bags.with_known(z), np.full(len(bags), NAN)).log_evidence_, abs=1e-7
    )


def test_what_known_instances_imply_for_their_bag_adds_nothing(fit, bags):
    """With every instance known the bag's label is known too; saying it as well changes nothing."""
    rng = np.random.default_rng(4)
    z = (rng.random(bags.n_instances) < 0.3).astype(float)
    implied = np.maximum.reduceat(z, bags.offsets[:-1])
    known = bags.with_known(z)
    same(fit(known, implied), fit(known, np.full(len(bags), NAN)))


def test_ranges_that_are_labels(fit, bags, y):
    low, high = y, np.where(y == 1, bags.sizes, 0)
    by_range = fit(bags, np.column_stack([low, high]), evidence="count")
    by_label = fit(bags, y)
    same(by_range, by_label)
    assert by_range.log_evidence_ == pytest.approx(by_label.log_evidence_, abs=1e-8)


def test_a_range_that_allows_everything_says_nothing(fit, bags, y):
    half = len(bags) // 2
    evidence = Evidence.concat([label(y[:half]), count(0, bags.sizes[half:])])
    without = fit(bags[:half], y[:half])
    with_them = fit(bags, evidence)
    same(with_them, without)
    assert with_them.log_evidence_ == pytest.approx(without.log_evidence_, abs=1e-8)


@pytest.mark.parametrize("nothing", [label, fraction, lambda values: count(values, values)])
def test_a_bag_without_evidence_changes_nothing(fit, bags, y, nothing):
    half = len(bags) // 2
    evidence = Evidence.concat([label(y[:half]), nothing(np.full(len(bags) - half, NAN))])
    same(fit(bags, evidence), fit(bags[:half], y[:half]))


def test_free_instances_beside_known_ones_change_nothing(fit, bags):
    """A bag about which nothing is said, with one instance known: the others stay out of it."""
    rng = np.random.default_rng(5)
    z = np.full(bags.n_instances, NAN)
    z[bags.offsets[:-1]] = rng.integers(0, 2, len(bags))
    alone = Bags(bags.X[bags.offsets[:-1]], np.arange(len(bags)))
    same(fit(bags.with_known(z), np.full(len(bags), NAN)), fit(alone, z[bags.offsets[:-1]]))


def test_nothing_observed_is_the_prior(fit, bags):
    with pytest.warns(BagDataWarning, match="can only answer with its prior"):
        model = fit(bags, np.full(len(bags), NAN))
    mean, variance = model.predict_latent(bags)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, 1.0 + 25.0, atol=1e-5)  # kernel and bias
    np.testing.assert_allclose(model.predict_instance_proba(bags), 0.5)
    assert model.log_evidence_ == 0.0


def test_ranges_that_allow_everything_are_the_prior_too(fit, bags):
    model = fit(bags, np.column_stack([np.zeros(len(bags)), bags.sizes]), evidence="count")
    np.testing.assert_allclose(model.predict_latent(bags)[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(model.predict_latent(bags)[1], 26.0, atol=1e-5)
    assert model.log_evidence_ == pytest.approx(0.0, abs=1e-12)


def test_two_label_columns_are_two_fits(fit, bags, y):
    rng = np.random.default_rng(6)
    other = rng.integers(0, 2, len(bags)).astype(float)
    other[[3, 8]] = NAN
    both = fit(bags, np.column_stack([y, other]))
    for k, column in enumerate((y, other)):
        alone = fit(bags, column)
        np.testing.assert_allclose(both.posterior_.mean[:, [k]], alone.posterior_.mean, atol=1e-7)
        np.testing.assert_allclose(
            both.predict_instance_proba(bags)[:, k], alone.predict_instance_proba(bags)[:, 1], atol=1e-7
        )
        np.testing.assert_allclose(both.predict_proba(bags)[:, k], alone.predict_proba(bags)[:, 1], atol=1e-6)
        assert both.log_evidence_[k] == pytest.approx(alone.log_evidence_, abs=1e-6)


def test_label_noise_vanishes_into_labels(fit, bags, y):
    exact = fit(bags, y)
    distances = []
    for noise in (1e-2, 1e-4, 1e-6):
        noisy = fit(bags, y, label_noise=noise)
        distances.append((noisy.posterior_.mean - exact.posterior_.mean).abs().max().item())
    assert distances[0] > 1e-3
    assert distances[1] < distances[0] / 20
    assert distances[2] < 1e-4
    same(fit(bags, y, label_noise=1e-12), exact)


def test_noise_of_one_half_would_be_no_evidence(fit, bags, y):
    almost = fit(bags, y, label_noise=0.5 - 1e-9)
    np.testing.assert_allclose(almost.posterior_.mean, 0.0, atol=1e-7)


def test_evidence_given_in_pieces_is_the_evidence(fit, bags, y):
    whole = fit(bags, label(y))
    same(fit(bags, [label(one) for one in y]), whole)
    same(fit(bags, y), whole)


# ---------------------------------------------------------------- with the published model


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
def test_with_all_inducing_inputs_the_mean_field_is_that_of_the_published_model(bags, y, kernel):
    """κ = 0, so the bounds (1.6) and (1.8) are one."""
    common = {"kernel": kernel, "bias": 0.0, "n_inducing": None, "tol": 1e-10, "random_state": 0, "jitter": 1e-10}
    ours = BagGP(learn=False, inference="vi", **common).fit(bags, y)
    theirs = MILGPProbit(max_iter=None, **common).fit(bags, y)
    same(ours, theirs, 1e-6)
    assert ours.log_evidence_ == pytest.approx(theirs.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(ours.predict_proba(bags), theirs.predict_proba(bags), atol=1e-6)


def test_with_few_inducing_inputs_integrating_f_first_gives_a_better_bound(bags, y):
    common = {"bias": 0.0, "n_inducing": 4, "random_state": 0}
    ours = BagGP(learn=False, inference="vi", **common).fit(bags, y)
    theirs = MILGPProbit(max_iter=None, **common).fit(bags, y)
    assert ours.log_evidence_ > theirs.log_evidence_ + 0.1


def test_with_few_inducing_inputs_the_bound_is_the_one_with_f_integrated_out(bags, y):
    """(1.8), assembled by hand: φ/s in place of φ, s² = 1 + κ, and no further penalty for κ."""
    model = BagGP(learn=False, inference="vi", n_inducing=4, tol=1e-9, random_state=0).fit(bags, y)
    phi, kappa = model.features_.transform(bags)
    assert kappa.max() > 0.1
    rows, mean = phi / np.sqrt(1 + kappa)[:, None], model.posterior_.mean[:, 0].numpy()
    precision = np.eye(phi.shape[1]) + rows.T @ rows
    all_negative = np.add.reduceat(norm.logcdf(-rows @ mean), bags.offsets[:-1])
    log_z = np.where(y == 1, np.log(-np.expm1(all_negative)), all_negative)
    bound = log_z.sum() - 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * mean @ mean
    assert model.log_evidence_ == pytest.approx(bound, abs=1e-9)
    np.testing.assert_allclose(model.posterior_.factors[0] @ model.posterior_.factors[0].T, precision, atol=1e-9)
