"""The evidence of class sites as a judge of kernels: its gradient against differences."""

import copy

import numpy as np
import pytest
from tests.inference.kernel_learning.slopes import slopes
from tests.problems import features_of, random_bags

from bagwise.bag_models.classes import ProbitClasses
from bagwise.evidence.classes import ClassEvidence
from bagwise.gp import kernels
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning import by_classes
from bagwise.inference.kernel_learning.by_classes import ByClasses
from bagwise.inference.kernel_learning.learn import TensorBlock
from bagwise.inference.kernel_learning.rows import RowsHere

STEP = 1e-4
SETS = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 1, 1]], dtype=bool)


@pytest.mark.parametrize(("chunk_rows", "kept"), [(8192, 200_000), (12, 0)])
def test_gradient_of_the_evidence_of_classes_agrees_with_differences(monkeypatch, chunk_rows, kept):
    for name, value in {"_TOLERANCE": 1e-10, "_ROUNDS": 1000, "_ADJOINT_TOLERANCE": 1e-9, "_KEPT": kept}.items():
        monkeypatch.setattr(by_classes, name, value)
    rng = np.random.default_rng(1)
    bags = random_bags(rng, 8, (1, 4))
    evidence = ClassEvidence(SETS[np.arange(8) % 6], bags.offsets)
    made = kernels.trainable_kernel("rbf", 2, None, 2.0, False)
    features = features_of(bags, kernel=made, lengthscale=None, bias=1.0, n_inducing=5)
    kernel, inducing = copy.deepcopy(features.kernel), features.inducing.clone()
    rows = RowsHere(features, kernel, inducing, bags, ProbitClasses(evidence), chunk_rows)
    block, places = KernelParameters(kernel, 2), TensorBlock(inducing)
    judge = ByClasses(rows, 5)
    judge()
    np.testing.assert_allclose(*slopes((block, places), judge, STEP), rtol=2e-4, atol=2e-5)
