"""The skeleton of the docs is a model like any other."""

from pathlib import Path

import pytest
from docs.skeletons.model import MeanPoolingGP

from bagwise.testing import CHECKS

SKELETON = Path(__file__).parents[1] / "docs" / "skeletons" / "model.py"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_skeleton_keeps_the_contract(check):
    check(MeanPoolingGP())


def test_skeleton_is_short():
    assert len(SKELETON.read_text().splitlines()) < 130
