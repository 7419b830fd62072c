"""BagGP on totals: weights, effects of a group, several outcomes, tables of groups."""

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.elections import one_repeat
from scipy.stats import norm

import bagwise
from bagwise import BagGP, Bags
from bagwise.aggregates import group_table
from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.totals import TotalBags
from bagwise.evidence.statements import Evidence, count, fraction, label
from bagwise.evidence.totals import total_statements
from bagwise.exceptions import BagDataError
from bagwise.gp.effects import NO_EFFECT
from bagwise.inference.laplace.totals import Totals, whole_design


def precincts(n_bags=30, sd=0.3, seed=0, totals=(8, 60), rates=(0.25, 0.7)):
    rng = np.random.default_rng(seed)
    people = rng.integers(*totals, (n_bags, len(rates)))
    effect = rng.normal(0.0, sd, (n_bags, 1))
    positive = rng.binomial(people, norm.cdf(norm.ppf(rates) + effect))
    table = pd.DataFrame(people, columns=["young", "old"]).assign(precinct=[f"p{b}" for b in range(n_bags)])
    return Bags.from_totals(table, "precinct", ["young", "old"]), positive, people


KINDS = {
    "count": lambda k, n: count(k, k),
    "range": lambda k, n: count(np.maximum(k - 2, 0), np.minimum(k + 3, n)),
    "fraction": lambda k, n: fraction(k / n, 200.0),
    "label": lambda k, n: label((k > np.median(k)).astype(float)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effect", [0.0, 0.4, (0.3, 0.3)])
def test_weighted_rows_equal_repeated_rows(kind, effect):
    bags, positive, people = precincts(6, totals=(3, 70))
    y = KINDS[kind](positive.sum(1), people.sum(1))
    settings = {"learn": False, "group_effect": effect, "inference": "laplace", "random_state": 0}
    weighted, repeated = BagGP(**settings).fit(bags, y), BagGP(**settings).fit(bags.repeated(), y)
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-8)
    found = weighted.predict_instance_proba(bags[:1]), repeated.predict_instance_proba(bags[:1])
    assert np.abs(found[0] - found[1]).max() < 1e-8
    found = weighted.predict_proba(bags[:2]), weighted.predict_proba(bags[:2].repeated())
    assert np.abs(found[0] - found[1]).max() < 1e-8


def test_weighted_rows_equal_repeated_rows_with_messages():
    bags, positive, _ = precincts(10, totals=(1, 5))
    y = (positive.sum(1) > 2).astype(int)
    weighted, repeated = (BagGP(learn=False, inference="ep", random_state=0).fit(b, y) for b in (bags, bags.repeated()))
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-8)


def test_weights_of_the_standardised_rows_are_those_of_individuals():
    bags, *_ = precincts(5)
    weighted, repeated = (
        BagGP(learn=False, inference="laplace").fit(b, label(np.ones(5))) for b in (bags, bags.repeated())
    )
    assert torch.allclose(weighted.features_.scale, repeated.features_.scale)


@pytest.mark.parametrize("kind", KINDS)
def test_effect_of_the_group_is_integrated_out_exactly(kind):
    bags, positive, people = precincts(5, totals=(3, 90))
    y = KINDS[kind](positive.sum(1), people.sum(1))
    held = TotalBags(total_statements(y, bags), torch.float64, torch.device("cpu"))
    z, ones, sd = torch.tensor(np.tile([-0.6, 0.5], 5)), torch.ones(10, dtype=torch.float64), 0.7
    effect = Effect(torch.tensor(sd, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64))
    grid = torch.linspace(-6.0, 6.0, 4001, dtype=torch.float64) * sd
    logs = held.conditional(z[:, None] + grid) + torch.as_tensor(norm.logpdf(grid.numpy(), 0.0, sd))
    wanted = torch.logsumexp(logs, 1) + torch.log(grid[1] - grid[0])
    found = held.logs(z, ones, effect)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.statistical
def test_log_evidence_of_totals_is_that_of_importance_sampling():
    bags, positive, _ = precincts(25, sd=0.5)
    y = positive.sum(1)
    for sd in (0.1, 0.5, 1.5):
        model = BagGP(evidence="count", learn=False, group_effect=sd, random_state=0).fit(bags, y)
        features = model.features_.__class__(**{**vars(model.features_), "effect": NO_EFFECT})
        evidence = TotalBags(total_statements(count(y, y), bags), torch.float64, torch.device("cpu"))
        design = whole_design(features, bags)
        normals = torch.randn(design.phi.shape[1], 400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        v = model.posterior_.draws(normals)[0]
        shrink = torch.rsqrt(1.0 + design.kappa)
        effect = Effect(torch.tensor(sd, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64))
        logs = torch.stack([evidence.logs(shrink * (design.phi @ w), shrink, effect).sum() for w in v.T])
        logdet = torch.log(torch.diagonal(model.posterior_.factors[0])).sum()
        weights = logs - 0.5 * v.square().sum(0) + 0.5 * normals.square().sum(0) - logdet
        found = float(torch.logsumexp(weights, 0)) - np.log(400)
        assert model.log_evidence_ == pytest.approx(found, abs=0.1)


def test_size_of_the_effect_is_larger_where_precincts_differ():
    sizes = []
    for sd in (0.0, 0.8):
        bags, positive, _ = precincts(40, sd=sd, totals=(100, 400))
        model = BagGP(evidence="count", learn=False, group_effect=True, random_state=0).fit(bags, positive.sum(1))
        sizes.append(model.group_effect_.size)
    assert sizes[0] < 0.15
    assert 0.5 < sizes[1] < 1.1


@pytest.mark.statistical
def test_size_of_the_effect_is_found_and_reported():
    """On average over samples: by chance effects go with the composition, and single sizes are off by .2."""
    for sd in (0.0, 0.8):
        samples = (precincts(80, sd=sd, seed=seed, totals=(100, 400)) for seed in range(4))
        found = [
            BagGP(evidence="count", learn=False, group_effect=True, random_state=0).fit(bags, positive.sum(1))
            for bags, positive, _ in samples
        ]
        assert np.mean([model.group_effect_.size for model in found]) == pytest.approx(sd, abs=0.16)


def test_model_of_totals_is_saved_with_its_effect(tmp_path):
    bags, positive, _ = precincts(10)
    model = BagGP(evidence="count", learn=False, random_state=0).fit(bags, positive.sum(1))
    model.save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    assert again.group_effect_ == model.group_effect_
    assert model.group_effect_.size > 0
    np.testing.assert_array_equal(again.predict_fraction(bags).upper, model.predict_fraction(bags).upper)


def test_pair_of_effects_is_saved_with_the_settings(tmp_path):
    bags, positive, _ = precincts(6)
    model = BagGP(evidence="count", learn=False, group_effect=(0.3, 0.2), random_state=0).fit(bags, positive.sum(1))
    assert (model.group_effect_.common, model.group_effect_.own) == pytest.approx((0.3, 0.2))
    model.save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    assert again.group_effect_ == model.group_effect_
    assert again.fit(bags, positive.sum(1)).group_effect_ == model.group_effect_
    with pytest.raises(BagDataError, match="a number or two numbers"):
        BagGP(evidence="count", group_effect=(0.3, 0.2, 0.1)).fit(bags, positive.sum(1))


def test_interval_of_a_large_total_is_that_of_its_repeated_rows():
    bags, positive, _ = precincts(12, totals=(100, 200))
    model = BagGP(evidence="count", learn=False, group_effect=0.3, random_state=0).fit(bags, positive.sum(1))
    few, many = model.predict_fraction(bags[:4]), model.predict_fraction(bags[:4].repeated())
    np.testing.assert_allclose(few.mean, many.mean, atol=1e-12)
    np.testing.assert_allclose(few.lower, many.lower, atol=0.012)
    np.testing.assert_allclose(few.upper, many.upper, atol=0.012)
    chances = [model.predict_count_proba(some, 40, 150) for some in (bags[:4], bags[:4].repeated())]
    np.testing.assert_allclose(*chances, atol=0.01)


def test_a_million_people_cost_as_many_rows_as_there_are_cells():
    bags, positive, _ = precincts(6, totals=(200_000, 400_000))
    model = BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, positive.sum(1))
    assert model.posterior_.mean.shape[0] <= 3
    assert np.isfinite(model.predict_fraction(bags).upper).all()
    with pytest.raises(BagDataError, match="too many to give each a row"):
        BagGP(evidence="count", inference="vi").fit(bags, positive.sum(1))


def test_table_holds_bounds_and_draws_that_agree_with_the_totals():
    bags, positive, people = precincts(20, totals=(5, 300))
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, random_state=0).fit(bags, y)
    each = group_table(model, bags, y, sets="bags", n_draws=60)
    numbers = each.draws[..., 0] * people
    np.testing.assert_allclose(numbers.sum(2), np.tile(y, (60, 1)), atol=1e-6)
    assert ((each.draws[..., 0] >= each.least[..., 0] - 1e-9) & (each.draws[..., 0] <= each.most[..., 0] + 1e-9)).all()
    truth = positive / people
    assert ((truth >= each.least[..., 0] - 1e-9) & (truth <= each.most[..., 0] + 1e-9)).all()
    whole = group_table(model, bags, y, sets={"west": ["p0", "p1"], "east": ["p5"]}, n_draws=60)
    assert list(whole.to_frame()["set"].unique()) == ["west", "east"]
    assert whole.goodman[0, 0, 0] == pytest.approx(0.25, abs=0.2)


def test_shares_of_several_outcomes_add_up_to_one():
    rng = np.random.default_rng(0)
    bags, _, people = precincts(15, totals=(50, 300))
    chance = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    votes = np.stack([[rng.multinomial(n, p) for n, p in zip(row, chance, strict=True)] for row in people]).sum(1)
    y = pd.DataFrame(votes / votes.sum(1, keepdims=True), columns=["red", "blue", "none"], index=bags.ids)
    model = BagGP(evidence="fraction", confidence=1e5, learn=False, random_state=0).fit(bags, y)
    table = group_table(model, bags, y, n_draws=50)
    assert table.outcomes == ("red", "blue", "none")
    np.testing.assert_allclose(table.draws.sum(3), 1.0, atol=1e-6)
    np.testing.assert_allclose(table.mean[0], chance, atol=0.1)
    with pytest.raises(BagDataError, match="outcomes add up to"):
        BagGP(evidence="fraction").fit(bags, y.to_numpy() * 1.5)


def test_forgotten_kind_of_evidence_is_named():
    bags, positive, people = precincts(6)
    with pytest.raises(BagDataError, match="evidence='fraction'"):
        BagGP().fit(bags, positive.sum(1) / people.sum(1))


def test_effect_of_a_group_is_refused_where_the_inference_cannot_have_one():
    bags, positive, _ = precincts(4)
    with pytest.raises(BagDataError, match="inference='laplace' or 'auto'"):
        BagGP(evidence="count", group_effect=True, inference="ep").fit(bags, positive.sum(1))


def test_models_without_weights_name_the_way_out():
    bags, positive, _ = precincts(4)
    with pytest.raises(BagDataError, match=r"bags\.repeated\(\)"):
        bagwise.VGPMIL().fit(bags, (positive.sum(1) > 20).astype(int))


def test_statements_of_chosen_bags_are_theirs():
    bags, positive, people = precincts(6, totals=(3, 90))
    makers = [*KINDS.values(), KINDS["count"], KINDS["count"]]
    y = Evidence.concat([make(positive.sum(1), people.sum(1))[[bag]] for bag, make in enumerate(makers)])
    whole, chosen = total_statements(y, bags), np.array([1, 2, 5])
    some, wanted = whole.of_bags(chosen), total_statements(y[chosen], bags[chosen])
    for name in ("kind", "mean", "variance", "free", "offsets", "small"):
        np.testing.assert_array_equal(getattr(some, name), getattr(wanted, name))
    assert len(Totals(bags, (whole,)).stating()) == 6


@pytest.mark.statistical
@pytest.mark.parametrize("effect", [0.0, 0.3, 1.0])
def test_ranges_cover_what_they_promise_on_precincts_drawn_from_the_model(effect):
    """Cells of one sample stand and fall together: with 24 samples the mean is known to about .03."""
    found = np.array([one_repeat(50, effect, seed)[:3] for seed in range(24)])
    cells, rates, new = found.mean(0)
    assert 0.83 < cells < 0.97
    assert 0.75 < rates <= 1.0
    assert 0.85 < new < 0.98
