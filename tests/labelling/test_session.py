"""A session asks, learns and asks again."""

import numpy as np
from tests.labelling.desk import fitted, open_session, problem
from tests.labelling.sessions import session_for

from bagwise import MIPLGP
from bagwise.active import suggest
from bagwise.datasets import make_bags
from bagwise.labelling.question import ONE_OF, Question


def test_one_class_out_of_many_is_asked_for_where_it_is_least_certain(tmp_path):
    bags = make_bags(18, 3, random_state=0)[0]
    names = np.array(["ant", "bee", "cat"])[np.arange(18) % 3].astype(object)
    model = MIPLGP(learn=False, n_inducing=8, random_state=0).fit(bags[:9], names[:9])
    known = [{name} for name in names[:8]] + [{"ant", "bee"}] + [None] * 9  # the ninth is known up to two candidates
    session = session_for(model, bags, known, tmp_path)
    assert session.progress().left == 10
    assert session.pool.question == Question(ONE_OF, ("ant", "bee", "cat"))
    p = model.predict_proba(bags[8:])
    entropy = -(p * np.log2(p)).sum(axis=1)
    assert session.next("t") == 8 + int(np.argmax(entropy))
    session.answer("t", session.next("t"), [0, 1, 0])
    _, y = session.pool.evidence(session.known())
    assert y.iloc[8].tolist() in ([1, 1, 0], [0, 1, 0])
    session.refit()
    assert session.progress().fitted_to == 9, session.progress().message
    assert session.progress().measure == "accuracy"


def test_instances_are_asked_for_as_suggest_does_and_become_known(tmp_path):
    bags = problem()[0]
    session = open_session(tmp_path, what="instances")
    number = session.next("t")
    assert number == int(suggest(fitted(), bags, what="instances").indices[0])
    session.answer("t", number, [1])
    fit_bags, _ = session.pool.evidence(session.known())
    assert fit_bags.known[number] == 1
    assert np.isnan(np.delete(fit_bags.known, number)).all()
    session.refit()
    assert session.progress().fitted_to == 1, session.progress().message


def test_contradiction_between_bag_and_instance_is_told_on_the_page(tmp_path):
    bags, known, _, _ = problem()
    session = open_session(tmp_path, what="instances")
    in_negative = int(np.flatnonzero((known == 0)[bags.index])[0])
    session.answer("t", in_negative, [1])
    session.refit()
    assert "contradicts its instances" in session.progress().message


def test_model_waits_for_both_answers_before_it_is_fitted(tmp_path):
    bags, _, _, _ = problem()
    session = session_for(fitted(), bags, None, tmp_path)
    session.answer("t", session.next("t"), [1])
    session.refit()
    assert "both answers" in session.progress().message
    session.answer("t", session.next("t"), [0])
    session.refit()
    assert session.progress().fitted_to == 2
