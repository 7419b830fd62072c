"""What baselines of fractions share: individuals told apart, counts, refusals."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from tests.baselines.fraction_bags import groups

from bagwise import BagDataError, BagDataWarning
from bagwise.baselines import EMProportions, InvCal, MeanMap, ProportionSVM


@pytest.mark.parametrize("method", [InvCal, MeanMap, EMProportions, ProportionSVM])
def test_individuals_are_told_apart_from_fractions_alone(method):
    bags, fraction, _ = groups()
    new, new_fraction, truth = groups(seed=1)
    model = method(random_state=0).fit(bags, fraction)
    assert roc_auc_score(truth, model.predict_instance_proba(new)[:, 1]) > 0.93
    assert np.corrcoef(model.predict_fraction(new).mean, new_fraction)[0, 1] > 0.9


def test_counts_are_those_of_independent_instances():
    bags, fraction, _ = groups(8, 4)
    model = MeanMap().fit(bags, fraction)
    p = model.predict_instance_proba(bags)[:, 1].reshape(8, 4)
    law = np.zeros((8, 5))
    for held in itertools.product((0, 1), repeat=4):
        law[:, sum(held)] += np.prod(np.where(held, p, 1 - p), axis=1)
    assert np.allclose(model.predict_count_proba(bags, 1, 2), law[:, 1] + law[:, 2])
    assert np.allclose(model.predict_proba(bags)[:, 0], law[:, 0])
    found = model.predict_fraction(bags, level=0.8)
    below = np.cumsum(law, axis=1)
    assert np.allclose(found.mean, p.mean(axis=1))
    assert np.allclose(found.lower, (below < 0.1).sum(axis=1) / 4)
    assert np.allclose(found.upper, (below < 0.9).sum(axis=1) / 4)


def test_fractions_outside_of_zero_and_one_are_refused():
    bags, fraction, _ = groups(4, 3)
    with pytest.raises(BagDataError, match=r"bag '0'"):
        InvCal().fit(bags, fraction + 1.5)


def test_nothing_known_is_answered_with_one_half_and_a_warning():
    bags, fraction, _ = groups(4, 3)
    with pytest.warns(BagDataWarning, match="nothing is known about any bag"):
        model = EMProportions().fit(bags, fraction * np.nan)
    assert np.allclose(model.predict_instance_proba(bags), 0.5)
