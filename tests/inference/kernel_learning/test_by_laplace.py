"""A kernel judged by Laplace's approximation: one for all label columns, with and without its prior."""

import numpy as np
import pytest
from tests.models.gpmil_problems import BOTH, new_problem

from bagwise import GPMIL


@pytest.fixture(scope="module")
def problem():
    return new_problem()


def test_several_columns_learn_one_kernel_for_all(problem):
    bags, y = problem[:2]
    both = np.column_stack([y, 1 - y])
    model = GPMIL(n_restarts=1, random_state=0).fit(bags, both)
    alone = GPMIL(learn=False, kernel=model.kernel_, random_state=0).fit(bags, y)
    np.testing.assert_allclose(model.predict_proba(bags)[:, 0], alone.predict_proba(bags)[:, 1], atol=1e-6)
    assert model.log_evidence_.shape == (2,)
    assert model.witness_.shape == (len(bags), 2)
    assert model.predict_witness(bags).shape == (len(bags), 2)


@BOTH
def test_evidence_without_the_prior_of_the_kernel_ends_higher(problem, approximation):
    bags, y = problem[0][:25], problem[1][:25]
    settings = {"n_restarts": 1, "random_state": 0}
    with_prior, alone = (
        GPMIL(approximation, kernel_prior=prior, **settings).fit(bags, y).log_evidence_ for prior in (True, False)
    )
    assert alone > with_prior + 0.01
