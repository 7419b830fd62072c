"""Answers given the label of the bag: against enumeration, and calibrated."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from gpytorch import kernels
from scipy.stats import norm
from tests.predict.test_bags import some_posterior
from tests.problems import features_of, random_bags, random_labels

from bagwise import GPMIL, VGPMIL, BagDataError, BagGP, Bags, MILGPProbit, count, fraction, label
from bagwise.bag_models.rules import AtLeastOne
from bagwise.datasets import wave
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import LOGISTIC, PROBIT
from bagwise.predict.given import instances_given_labels
from bagwise.predict.points import Fitted


def enumerated(chances):
    """P(yᵢ = 1 | at least one) by going through all patterns under every draw: (n,) from chances (n, draws)."""
    joint, evidence = np.zeros(len(chances)), 0.0
    for signs in itertools.product([0, 1], repeat=len(chances)):
        if any(signs):
            s = np.array(signs)[:, None]
            weight = np.prod(np.where(s == 1, chances, 1 - chances), axis=0).mean()
            joint, evidence = joint + weight * np.array(signs), evidence + weight
    return joint / evidence


@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)
def test_instances_of_a_positive_bag_of_eight_equal_enumeration(link):
    rng = np.random.default_rng(3)
    features = features_of(random_bags(rng, n_bags=20), n_inducing=6)
    given = some_posterior(rng, 6)
    posterior = GaussianPosterior(given.mean, given.factors, given.factor_of, link)
    bag = Bags(rng.normal(size=(8, 2)), np.zeros(8))
    fitted = Fitted(features, posterior, AtLeastOne(shares=False), 0)
    (latent,) = fitted.latent(bag)
    scores = torch.cat([scores for _, scores in latent.scores(0)], dim=1)
    expected = enumerated(link.chances(scores)[0].numpy())
    found = instances_given_labels(fitted, bag, np.array([[1.0]]))[:, 0]
    np.testing.assert_allclose(found, expected, atol=3e-3)  # the draws' own error; their numerator is not exact
    sure = GaussianPosterior(given.mean, 1e5 * given.factors, given.factor_of, link)
    certain = Fitted(features, sure, AtLeastOne(shares=False), 0)
    (latent,) = certain.latent(bag)
    one_draw = link.chances(next(iter(latent.scores(0)))[1])[0].numpy()[:, :1]
    exact = instances_given_labels(certain, bag, np.array([[1.0]]))[:, 0]
    np.testing.assert_allclose(exact, enumerated(one_draw), atol=2e-4)


def test_probabilities_given_the_label_are_calibrated():
    """Bags drawn from the model itself, each with a function of its own: .7 must come true in 70 % of the cases."""
    rng = np.random.default_rng(0)
    features = features_of(random_bags(rng, n_bags=30), n_inducing=8, bias=1.0)
    R = len(features.transform(Bags(np.zeros((1, 2)), [0]))[0].T)
    mean = torch.tensor(2.0 * rng.normal(size=(R, 1)))
    mean[-1] = -1.5
    belief = GaussianPosterior(mean, 2.0 * torch.eye(R).double()[None], torch.zeros(1, dtype=torch.int64), PROBIT)
    n_bags = 1500
    bags = Bags(rng.normal(size=(8 * n_bags, 2)), np.repeat(np.arange(n_bags), 8))
    phi, kappa = features.transform(bags)
    v = mean[:, 0].numpy() + 0.5 * rng.normal(size=(n_bags, R))
    f = np.einsum("nr,nr->n", phi, v[bags.index]) + np.sqrt(kappa) * rng.normal(size=len(phi))
    z = f + rng.normal(size=len(f)) > 0
    y = np.logical_or.reduceat(z, bags.offsets[:-1]).astype(float)
    p = instances_given_labels(Fitted(features, belief, AtLeastOne(shares=False), 0), bags, y[:, None])[:, 0]
    assert not z[p == 0].any()
    for low in np.arange(0.0, 0.9, 0.1):
        near = (p > low) & (p < low + 0.1)
        excess = np.add.reduceat(np.where(near, z - p, 0.0), bags.offsets[:-1])  # instances of a bag are no strangers
        assert abs(excess.sum()) < 4 * np.sqrt(np.square(excess).sum())
        assert near.sum() > 30


@pytest.mark.statistical
def test_of_tiles_in_positive_bags_with_p_near_seven_tenths_about_seventy_percent_are_positive():
    near, positive = 0, 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        bags = Bags(rng.normal(size=(3200, 2)), np.repeat(np.arange(400), 8))
        z = rng.random(3200) < norm.cdf(1.5 * wave(bags.X) - 0.5)
        y = np.logical_or.reduceat(z, bags.offsets[:-1]).astype(int)
        model = BagGP(random_state=0).fit(bags[:120], y[:120])
        p = model.predict_instance_proba(bags[120:], given=y[120:])[:, 1]
        some = (p > 0.6) & (p < 0.8)
        near, positive = near + some.sum(), positive + z[bags.offsets[120] :][some].sum()
    assert near > 200
    assert positive / near == pytest.approx(0.7, abs=0.07)


@pytest.fixture(scope="module")
def of_fractions():
    """A model of fractions, its bags, and what these state."""
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=30, sizes=(3, 6))
    positive = bags.X[:, 0] > 0
    stated = np.add.reduceat(positive, bags.offsets[:-1]) / bags.sizes
    return (
        BagGP(evidence="fraction", learn=False, n_inducing=15, random_state=0).fit(bags, stated),
        bags,
        positive,
        stated,
    )


def counted_by_hand(chances, log_psi):
    """P(yᵢ = 1 | statement) with a factor ψ for every number of positives, by all patterns under every draw."""
    joint, evidence = np.zeros(len(chances)), 0.0
    for signs in itertools.product([0, 1], repeat=len(chances)):
        s = np.array(signs)[:, None]
        weight = np.exp(log_psi[sum(signs)]) * np.prod(np.where(s == 1, chances, 1 - chances), axis=0).mean()
        joint, evidence = joint + weight * np.array(signs), evidence + weight
    return joint / evidence


def test_instances_given_a_number_of_positives_equal_enumeration(of_fractions):
    model, bags, _, _ = of_fractions
    numbers = np.minimum(np.arange(len(bags)) % 3, bags.sizes)
    found = model.predict_instance_proba(bags, given=count(numbers, numbers))[:, 1]
    (latent,) = model._fitted().latent(bags)
    chances = np.concatenate([norm.cdf(scores.numpy()) for _, scores in latent.scores(0)], axis=1)
    for b, (start, stop) in enumerate(itertools.pairwise(bags.offsets)):
        log_psi = np.where(np.arange(stop - start + 1) == numbers[b], 0.0, -np.inf)
        np.testing.assert_allclose(found[start:stop], counted_by_hand(chances[start:stop], log_psi), rtol=1e-8)
    np.testing.assert_allclose(np.add.reduceat(found, bags.offsets[:-1]), numbers, atol=1e-8)


def test_fractions_are_given_as_fit_takes_them_and_tell_instances_apart_better(of_fractions):
    model, bags, positive, stated = of_fractions
    alone, given = (model.predict_instance_proba(bags, given=said)[:, 1] for said in (None, stated))
    np.testing.assert_array_equal(given, model.predict_instance_proba(bags, given=fraction(stated))[:, 1])
    assert np.mean(np.log(np.where(positive, given, 1 - given))) > np.mean(np.log(np.where(positive, alone, 1 - alone)))
    assert (given[stated[bags.index] == 0] < 0.01).all()


def test_bags_given_a_range_of_counts_equal_enumeration(of_fractions):
    """P(at least one | at most one positive) by all patterns under every draw."""
    model, bags, _, _ = of_fractions
    found = model.predict_proba(bags, given=count(np.zeros(len(bags)), np.ones(len(bags))))[:, 1]
    (latent,) = model._fitted().latent(bags)
    chances = np.concatenate([norm.cdf(scores.numpy()) for _, scores in latent.scores(0)], axis=1)
    for b, (start, stop) in enumerate(itertools.pairwise(bags.offsets)):
        none = np.prod(1 - chances[start:stop], axis=0)
        one = (none * chances[start:stop] / (1 - chances[start:stop])).sum(0)
        assert found[b] == pytest.approx(one.mean() / (none.mean() + one.mean()), rel=1e-8)


def test_bags_given_fractions_hold_a_positive_if_the_fraction_is_above_zero(of_fractions):
    model, bags, _, stated = of_fractions
    found = model.predict_proba(bags, given=stated)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found[stated > 0, 1] > 0.99).all()
    assert (found[stated == 0, 1] < 0.05).all()
    each = model.predict_instance_proba(bags, given=stated)[:, 1]
    assert (each <= found[bags.index, 1] + 1e-9).all()
    silent = np.where(np.arange(len(bags)) < 5, stated, np.nan)
    np.testing.assert_array_equal(model.predict_proba(bags, given=silent)[5:], model.predict_proba(bags)[5:])
    nothing = np.full(len(bags), np.nan)
    np.testing.assert_array_equal(model.predict_proba(bags, given=nothing), model.predict_proba(bags))


def test_answer_that_takes_labels_only_says_how_to_give_them_to_a_model_of_fractions(of_fractions):
    model, bags, _, stated = of_fractions
    with pytest.raises(BagDataError, match=r"fitted to fractions .* labels only\. Give labels as bagwise\.label\(y\)"):
        model.predict_part_proba(Bags(bags.X, bags.index, part=bags.index), given=stated)
    machine = VGPMIL(evidence="fraction", updates="structured", n_inducing=5, random_state=0).fit(bags, stated)
    with pytest.raises(BagDataError, match=r"With BagGP, predict_proba\(bags, given=y\)"):
        machine.predict_proba(bags, given=stated)
    labels = np.arange(len(bags)) % 2
    np.testing.assert_array_equal(machine.predict_proba(bags, given=label(labels))[:, 1], labels)


def test_bags_that_state_nothing_or_a_label_are_answered_as_before(of_fractions):
    model, bags, _, stated = of_fractions
    some = np.where(np.arange(len(bags)) < 5, stated, np.nan)
    found = model.predict_instance_proba(bags, given=some)
    silent = bags.index >= 5
    np.testing.assert_array_equal(found[silent], model.predict_instance_proba(bags)[silent])
    labels = label(np.arange(len(bags)) % 2)
    assert (model.predict_instance_proba(bags, given=labels)[bags.index % 2 == 0, 1] == 0).all()


def test_nothing_given_is_no_reason_to_warn(of_fractions):
    model, bags, _, _ = of_fractions
    found = model.predict_instance_proba(bags, given=np.full(len(bags), np.nan))
    np.testing.assert_array_equal(found, model.predict_instance_proba(bags))


def test_rows_that_stand_for_many_are_refused_with_what_to_ask_instead(of_fractions):
    model, bags, _, stated = of_fractions
    heavy = Bags(bags.X, bags.index, weight=np.full(bags.n_instances, 3))
    with pytest.raises(BagDataError, match="draw_cells"):
        model.predict_instance_proba(heavy, given=stated)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(7)
    plain = random_bags(rng, n_bags=30, sizes=(2, 9))
    part = [f"{plain.ids[b]}/{i % 2}" for i, b in enumerate(plain.index)]
    bags = Bags(plain.X, np.array(plain.ids)[plain.index], part=part)
    y = random_labels(rng, bags)
    return MILGPProbit(random_state=0, bias=5.0).fit(bags, y), bags, y


def test_given_labels_decide_bags_and_scale_instances(fitted):
    model, bags, y = fitted
    some = np.where(np.arange(len(y)) % 3 == 0, np.nan, y)
    bag, each = model.predict_proba(bags)[:, 1], model.predict_instance_proba(bags)[:, 1]
    told, told_each = (ask(bags, given=some)[:, 1] for ask in (model.predict_proba, model.predict_instance_proba))
    unknown = np.isnan(some)
    np.testing.assert_array_equal(told[~unknown], some[~unknown])
    np.testing.assert_array_equal(told[unknown], bag[unknown])
    own = some[bags.index]
    np.testing.assert_array_equal(told_each[np.isnan(own)], each[np.isnan(own)])
    assert (told_each[own == 0] == 0).all()
    np.testing.assert_allclose(told_each[own == 1], (each / bag[bags.index])[own == 1])
    assert (np.add.reduceat(told_each, bags.offsets[:-1])[some == 1] >= 1 - 1e-12).all()


def test_given_takes_dicts_evidence_and_the_classes_of_the_fit(fitted):
    model, bags, y = fitted
    wanted = model.predict_instance_proba(bags, given=y)
    np.testing.assert_array_equal(model.predict_instance_proba(bags, given=dict(zip(bags.ids, y, strict=True))), wanted)
    np.testing.assert_array_equal(model.predict_instance_proba(bags, given=label(y)), wanted)
    with pytest.raises(BagDataError, match="fitted with the classes"):
        model.predict_instance_proba(bags, given=["yes"] * len(bags))


def test_given_works_for_several_label_columns_and_the_logistic_link():
    rng = np.random.default_rng(1)
    bags = random_bags(rng, n_bags=20)
    y = np.stack([random_labels(rng, bags), random_labels(rng, bags)], axis=1)
    model = VGPMIL(random_state=0).fit(bags, y)
    told = model.predict_instance_proba(bags, given=y)
    assert told.shape == (bags.n_instances, 2)
    assert (told[y[bags.index] == 0] == 0).all()
    assert (told >= model.predict_instance_proba(bags) - 1e-12)[y[bags.index] == 1].all()


def test_given_is_refused_where_the_rule_has_no_such_law():
    rng = np.random.default_rng(1)
    bags = random_bags(rng, n_bags=12)
    y = random_labels(rng, bags)
    model = GPMIL(learn=False, random_state=0).fit(bags, y)
    with pytest.raises(BagDataError, match="judges a bag by its witness"):
        model.predict_instance_proba(bags, given=y)


def test_patient_slide_and_tile_never_contradict_one_another(fitted):
    model, bags, y = fitted
    parts = bags.by_part()
    owner = bags.index[parts.offsets[:-1]]
    for given in (None, y):
        bag, part, each = (
            ask(bags, given=given)[:, 1]
            for ask in (model.predict_proba, model.predict_part_proba, model.predict_instance_proba)
        )
        assert (part <= bag[owner]).all()
        assert (np.maximum.reduceat(each, parts.offsets[:-1]) <= part + 1e-15).all()
        assert (part <= np.add.reduceat(each, parts.offsets[:-1]) + 1e-12).all()


def test_a_bag_of_one_part_has_the_probability_of_its_part():
    rng = np.random.default_rng(2)
    plain = random_bags(rng, n_bags=15)
    bags = Bags(plain.X, plain.index, part=plain.index)
    model = MILGPProbit(random_state=0).fit(bags, random_labels(rng, bags))
    np.testing.assert_allclose(model.predict_part_proba(bags), model.predict_proba(bags), atol=1e-12)


def test_spread_of_instances_is_the_standard_deviation_over_the_posterior(fitted):
    model, bags, _ = fitted
    mean, variance = model.predict_latent(bags)
    f = mean[:5, None] + np.sqrt(variance[:5, None]) * np.random.default_rng(0).normal(size=(5, 200_000))
    expected = torch.special.ndtr(torch.from_numpy(f)).numpy().std(axis=1)
    np.testing.assert_allclose(model.predict_instance_spread(bags)[:5], expected, rtol=0.02)


@pytest.mark.statistical
def test_tiles_of_positive_bags_are_calibrated_on_data_from_the_prior_of_the_model():
    """A function from the prior, bags of 4, some to learn from; the others are asked about, given their labels."""
    prior = kernels.ScaleKernel(kernels.RBFKernel()).double()
    prior.outputscale, prior.base_kernel.lengthscale = 4.0, 1.0
    model = BagGP(learn=False, kernel=prior, bias=1.5, standardize=False, n_inducing=None, random_state=0)
    off = []  # of every data set: tiles with P near .7, positive ones, expected ones
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2.5, 2.5, size=(240, 2))
        gram = prior(torch.from_numpy(X)).to_dense().detach().numpy() + 1.5**2 + 1e-6 * np.eye(240)
        z = rng.random(240) < norm.cdf(np.linalg.cholesky(gram) @ rng.normal(size=240))
        bags = Bags(X, np.repeat(np.arange(60), 4))
        y = np.logical_or.reduceat(z, bags.offsets[:-1]).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of these functions are nearly constant
            p = model.fit(bags[:20], y[:20]).predict_instance_proba(bags[20:], given=y[20:])[:, 1]
        near = (p > 0.6) & (p < 0.8)
        off.append((near.sum(), z[80:][near].sum(), p[near].sum()))
    n, positive, expected = np.array(off).T
    excess = positive - expected
    assert n.sum() > 500
    assert abs(excess.sum()) < 4 * np.sqrt(np.square(excess).sum())
    assert positive.sum() / n.sum() == pytest.approx(0.7, abs=0.08)
