"""What partial-label baselines share: rows that stand for bags, classes learned from candidates."""

import numpy as np
import pytest
from tests.baselines.candidate_bags import classes

from bagwise import Bags
from bagwise.baselines import CLPL, PLAGGD, PLKNN, SURE, ConditionalMixture
from bagwise.baselines._base.candidate_baseline import summaries


@pytest.mark.parametrize("summary", ["mean", "maxmin"])
@pytest.mark.parametrize("method", [PLKNN, CLPL, PLAGGD, SURE, ConditionalMixture])
def test_classes_are_learned_from_candidates(method, summary):
    bags, table, _ = classes()
    new, _, y = classes(seed=1)
    cheap = {"max_rounds": 3} if method is PLAGGD else {}
    model = method(summary=summary, random_state=0, **cheap).fit(bags, table)
    assert model.score(new, y) > 0.85
    assert (model.predict_instance_proba(new)[:, -1] == 0).all()


def test_summaries_are_means_or_extremes():
    bags = Bags(np.array([[1.0, 5.0], [3.0, -1.0], [2.0, 2.0]]), ["a", "a", "b"])
    assert summaries(bags, "mean").tolist() == [[2, 2], [2, 2]]
    assert summaries(bags, "maxmin").tolist() == [[3, 5, 1, -1], [2, 2, 2, 2]]
