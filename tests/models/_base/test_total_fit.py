"""BagGP fitted to totals: weights are repeated rows; what cannot be fitted is refused."""

import numpy as np
import pytest
import torch
from tests.precincts import KINDS, precincts

import bagwise
from bagwise import BagGP, Bags
from bagwise.evidence.statements import label
from bagwise.exceptions import BagDataError


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


def test_sizes_by_group_need_features_that_name_groups():
    bags = Bags([[0.2], [0.7], [0.1], [0.4]], [0, 0, 1, 1], weight=[5, 5, 5, 5])
    with pytest.raises(BagDataError, match="the features name no groups"):
        BagGP(evidence="count", learn=False, group_effect="by group").fit(bags, [3, 4])
    with pytest.raises(BagDataError, match="expected 'auto', 'by group', True"):
        BagGP(evidence="count", group_effect="bygroup").fit(bags, [3, 4])
    with pytest.raises(BagDataError, match="laplace"):
        BagGP(evidence="count", group_effect="by group", inference="ep").fit(bags, [3, 4])


def test_effects_have_one_size_unless_sizes_by_group_are_asked_for():
    bags, positive, _ = precincts(12, sd=0.5, totals=(100, 400))
    model = BagGP(evidence="count", learn=False, random_state=0)
    assert model.fit(bags, positive.sum(1)).group_effect_.by_group == ()
    assert len(model.set_params(group_effect="by group").fit(bags, positive.sum(1)).group_effect_.by_group) == 2
