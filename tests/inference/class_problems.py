"""Small problems of classes."""

import functools

import numpy as np
import torch
from tests.problems import features_of, random_bags, segments_of

from bagwise.bag_models.classes import ClassChunk
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.inference.engines import Limits
from bagwise.inference.loop import SILENT, iterate

K, SIZES = 3, (4, 4, 4)
EXACT = Limits(2000, 1e-9, SILENT)
TABLE = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]], dtype=bool)


def tiny():
    """Three bags of four, one weight per class: small enough for a grid over (v_1, v_2, v_3)."""
    rng = np.random.default_rng(3)
    phi = torch.from_numpy(rng.uniform(0.2, 1.5, size=(12, 1)))
    return Chunk(
        Design(phi, torch.full((12,), 0.1, dtype=torch.float64), segments_of(SIZES)),
        ClassChunk(torch.from_numpy(TABLE)),
    )


def settled_classes(chunk, columns):
    """An engine for one chunk that has settled."""
    engine = ClassPropagation([chunk], columns, torch.device("cpu"), 0)
    trace = iterate(engine.step, name="log evidence", max_iter=2000, tol=1e-10)
    assert trace.converged
    engine.finish()
    return engine


@functools.cache
def settled_tiny():
    """An engine for the tiny problem that has settled; look at it, but leave it as it is."""
    return settled_classes(tiny(), 1)


def labelled_problem(n_bags=14):
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags, (1, 5))
    y = rng.integers(0, 2, n_bags)
    return bags, features_of(bags, bias=1.0), y, np.eye(3, dtype=bool)[y]
