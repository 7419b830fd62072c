"""The conditional mixture against Bayes' rule written out; EM never goes down."""

import warnings

import numpy as np
import pytest
from tests.baselines.candidate_bags import classes

from bagwise.baselines import ConditionalMixture
from bagwise.baselines._base.candidate_baseline import summaries
from bagwise.baselines.conditional_mixture import class_frequencies, posterior_of_regions
from bagwise.exceptions import ConvergenceWarning

RNG = np.random.default_rng(0)


def test_posterior_of_regions_is_bayes_rule_written_out():
    scores, classes = RNG.normal(size=(4, 2)), RNG.dirichlet(np.ones(3), size=2)
    table = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool)
    found, value = posterior_of_regions(scores, classes, table)
    total = 0.0
    for i in range(4):
        gate = np.exp(scores[i]) / np.exp(scores[i]).sum()
        joint = np.array([[gate[k] * classes[k, c] * table[i, c] for c in range(3)] for k in range(2)])
        assert np.allclose(found[i], joint / joint.sum())
        total += np.log(joint.sum())
    assert value == pytest.approx(total)


def test_frequencies_of_a_region_have_a_little_of_every_class():
    belief = RNG.random((5, 2, 3))
    for k, row in enumerate(class_frequencies(belief)):
        counts = belief[:, k].sum(axis=0) + 0.3
        assert np.allclose(row, counts / counts.sum())


def test_em_of_the_conditional_mixture_never_lowers_its_objective():
    """Fits of one round more are at least as good: the likelihood of the candidates with both priors."""
    bags, table, _ = classes(24, n_false=1)
    rows = summaries(bags, "mean")
    values = []
    for rounds in (1, 2, 4, 8):
        model = ConditionalMixture(4, C=0.5, max_rounds=rounds, standardize=False, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine = model.fit(bags, table).machines_[0].machine
        likelihood = np.log((machine.class_scores(rows) * table).sum(axis=1)).sum()
        values.append(likelihood + 0.3 * np.log(machine.classes).sum() - (machine.gate[:-1] ** 2).sum())
    assert values == sorted(values)
    assert values[-1] > values[0] + 0.1
