"""What there is to label, and what is known of it."""

import numpy as np
import pytest
from tests.labelling.desk import fitted, open_session

from bagwise.datasets import make_bags
from bagwise.exceptions import BagDataError
from bagwise.labelling.journal import Journal
from bagwise.labelling.pool import make_pool
from bagwise.labelling.question import ONE_OF, Question


def test_answers_about_bags_that_are_not_there_are_refused(tmp_path):
    session = open_session(tmp_path)
    session._journal.answer("ann", ("stranger", None), [1], None, False)
    with pytest.raises(BagDataError, match="speak of bag 'stranger'"):
        open_session(tmp_path)


def test_people_who_name_three_classes_leave_the_class_open(tmp_path):
    question = Question(ONE_OF, ("a", "b", "c"))
    bags = make_bags(4, 2, random_state=0)[0]
    journal = Journal(tmp_path / "a.jsonl", "bags", question)
    for by, values in (("ann", [1, 0, 0]), ("ben", [0, 1, 0]), ("cy", [0, 0, 1])):
        journal.answer(by, (bags.ids[0], None), values, None, False)
    pool = make_pool(fitted(), bags, None, "bags", question)
    assert np.isnan(pool.known(journal.latest())[0]).all()
    journal.answer("cy", (bags.ids[0], None), [1, 0, 0], None, False)
    assert pool.known(journal.latest())[0].tolist() == [1, 0, 0]
