"""Labels of several columns become a table."""

import numpy as np
from tests.labelling.sessions import session_for

from bagwise import BagGP
from bagwise.datasets import make_bags
from bagwise.labelling.export import labelled_table


def test_several_labels_are_answered_together_and_learned(tmp_path):
    bags, y, _ = make_bags(16, 3, random_state=0)
    both = np.column_stack([y, bags.sizes * 0 + np.arange(16) % 2]).astype(float)
    model = BagGP(n_inducing=6, learn=False, random_state=0).fit(bags[:8], both[:8])
    known = np.where(np.arange(16)[:, None] < 8, both, np.nan)
    session = session_for(model, bags, known, tmp_path)
    number = session.next("t")
    session.answer("t", number, [1, 0])
    session.refit()
    assert session.progress().message is None
    assert session.progress().fitted_to == 9
    table = labelled_table(session.pool, session.known(), None, "bag", ("a", "b"), None)
    of_item = table[table["bag"] == bags.ids[number]]
    assert set(of_item["a"]) == {1}
    assert set(of_item["b"]) == {0}
