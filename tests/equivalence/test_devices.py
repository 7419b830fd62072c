"""A GPU finds what a processor finds, in every model, with the defaults that choose most for themselves."""

import warnings

import numpy as np
import pytest
import torch

from bagwise import GPMIL, LMVGPMIL, MIPLGP, VGPMIL, BagGP, MILGPProbit
from bagwise.datasets import make_bags, make_candidate_bags

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def labelled(**sizes):
    bags, y, _ = make_bags(60, random_state=0, **sizes)
    return bags, y


def two_columns():
    bags, y = labelled()
    return bags, np.column_stack([y, 1 - y])


def fractions():
    bags, _, truth = make_bags(60, random_state=0)
    return bags, np.add.reduceat(truth, bags.offsets[:-1]) / bags.sizes


def candidates():
    bags, sets, _, _ = make_candidate_bags(n_bags=40, bag_size=(5, 8), n_false=1, random_state=0)
    return bags, sets


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (BagGP, labelled),
        (BagGP, lambda: labelled(bag_size=(35, 60))),
        (BagGP, two_columns),
        (lambda **other: BagGP(evidence="fraction", **other), fractions),
        (lambda **other: BagGP(evidence="candidates", **other), candidates),
        (lambda **other: BagGP(inference="vi", **other), labelled),
        (lambda **other: BagGP(inference="gibbs", learn=False, **other), labelled),
        (GPMIL, labelled),
        (MILGPProbit, labelled),
        (VGPMIL, labelled),
        (LMVGPMIL, labelled),
        (lambda **other: MIPLGP(solver="sparse", n_rounds=5, **other), candidates),
    ],
)
def test_a_gpu_and_a_processor_agree(make, problem):
    bags, y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what has not settled in so few draws or rounds
        here, there = (make(random_state=0, device=device).fit(bags, y) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there.predict_proba(bags), here.predict_proba(bags), atol=1e-4)
    np.testing.assert_allclose(there.predict_instance_proba(bags), here.predict_instance_proba(bags), atol=1e-4)
