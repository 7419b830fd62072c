"""When the kernel is learned again, and what is asked next."""

import numpy as np
import pytest
from tests.labelling.desk import fitted, open_session, problem

from bagwise import BagGP
from bagwise.active import suggest
from bagwise.datasets import make_bags
from bagwise.labelling.learner import Learner, ask


def test_kernel_is_learned_again_only_when_labels_have_doubled():
    bags, y, _ = make_bags(6, 1, random_state=0)
    model = BagGP(n_inducing=3, random_state=0).fit(bags, y)
    learner = Learner(model, 10)
    assert learner.fit(bags, y, 19).model.get_params()["learn"] is False
    assert learner.fit(bags, y, 20).model.get_params()["learn"] is True
    assert learner.fit(bags, y, 39).model.get_params()["learn"] is False


def test_order_is_the_batch_of_suggest_and_then_by_utility(tmp_path):
    bags, known, _, _ = problem()
    session = open_session(tmp_path)
    asking = ask(fitted(), session.pool, session.known(), "bald", None)
    unknown = np.flatnonzero(np.isnan(known))
    batch = suggest(fitted(), bags[unknown], n=6)
    assert asking.order[:6].tolist() == unknown[batch.indices].tolist()
    assert asking.bits[:6] == pytest.approx(batch.gains / np.log(2))
    assert (np.diff(asking.bits[6:]) <= 0).all()
    assert sorted(asking.order) == unknown.tolist()
