"""How large effects of bags are found to be."""

import numpy as np
import pytest
from tests.precincts import precincts

from bagwise import BagGP


def test_size_of_the_effect_is_larger_where_precincts_differ():
    sizes = []
    for sd in (0.0, 0.8):
        bags, positive, _ = precincts(40, sd=sd, totals=(100, 400))
        model = BagGP(evidence="count", learn=False, group_effect=True, random_state=0).fit(bags, positive.sum(1))
        sizes.append(model.group_effect_.size)
    assert sizes[0] < 0.15
    assert 0.5 < sizes[1] < 1.1


@pytest.mark.statistical
def test_size_of_the_effect_is_found_and_reported():
    """On average over samples: by chance effects go with the composition, and single sizes are off by .2."""
    for sd in (0.0, 0.8):
        samples = (precincts(80, sd=sd, seed=seed, totals=(100, 400)) for seed in range(4))
        found = [
            BagGP(evidence="count", learn=False, group_effect=True, random_state=0).fit(bags, positive.sum(1))
            for bags, positive, _ in samples
        ]
        assert np.mean([model.group_effect_.size for model in found]) == pytest.approx(sd, abs=0.16)
