"""Labels of bags and of their parts at once."""

import numpy as np
import pytest

from bagwise import BagDataError, Bags, MILGPProbit, two_levels


@pytest.fixture
def bags():
    patient = np.repeat(["p0", "p1", "p2"], 6)
    slide = [f"{name}-{i % 3}" for i, name in enumerate(patient)]
    X = np.random.default_rng(0).normal(size=(18, 2))
    return Bags(X, patient, part=slide, meta={"tile": np.arange(18)})


def stated(found):
    return dict(zip(found.bags.ids, found.y, strict=True))


def parts_labelled(bags, labels):
    return {name: labels.get(name, np.nan) for name in bags.by_part().ids}


def test_labels_at_two_levels_become_labels_of_disjoint_bags(bags):
    found = two_levels(bags, [1, 1, 0], parts_labelled(bags, {"p0-1": 0, "p1-0": 1}))
    assert found.bags.n_instances == bags.n_instances
    assert stated(found) == {"p0 (other parts)": 1, "p0-1": 0, "p1 (other parts)": pytest.approx(np.nan, nan_ok=True),
                             "p1-0": 1, "p2": 0}  # fmt: skip
    assert found.bags.group == tuple(name[:2] for name in found.bags.ids)
    np.testing.assert_array_equal(found.bags.X, bags.X[np.argsort(bags.rows)][found.bags.rows])
    assert found.bags.meta["tile"].tolist() == found.bags.rows.tolist()


def test_two_levels_say_exactly_what_the_joint_labels_say(bags):
    """P(labels of both levels | p) by enumeration of all parts equals the product over the disjoint bags."""
    rng = np.random.default_rng(1)
    p = rng.random(3)  # that the slides of p0 hold a positive
    outcomes = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    chance = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    fits = (outcomes[:, 1] == 0) & (outcomes.max(axis=1) == 1)
    units = stated(two_levels(bags[0], [1], parts_labelled(bags[0], {"p0-1": 0})))
    assert units == {"p0 (other parts)": 1, "p0-1": 0}
    assert chance[fits].sum() == pytest.approx((1 - p[1]) * (1 - (1 - p[0]) * (1 - p[2])))


def test_a_model_learns_from_both_levels(bags):
    found = two_levels(bags, {"p0": 1, "p1": 0, "p2": 1}, parts_labelled(bags, {"p0-1": 0}))
    assert MILGPProbit(random_state=0).fit(*found).predict_part_proba(found.bags).shape == (9, 2)


@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([0, 1, 0], {"p0-1": 1}, "part 'p0-1' is labelled 1, but its bag 'p0' is labelled 0"),
        ([1, 1, 0], {"p0-0": 0, "p0-1": 0, "p0-2": 0}, "bag 'p0' is labelled 1, but all of its parts"),
    ],
)
def test_contradictions_between_levels_are_refused(bags, y, labels, message):
    with pytest.raises(BagDataError, match=message):
        two_levels(bags, y, parts_labelled(bags, labels))


def test_bags_without_parts_are_refused():
    with pytest.raises(BagDataError, match="these bags have no parts"):
        two_levels(Bags(np.zeros((2, 1)), ["a", "b"]), [0, 1], {})
