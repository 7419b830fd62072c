"""Fingerprints of steps and values."""

import numpy as np
import torch
from safetensors.torch import save

from bagwise.inference.belief import Belief
from bagwise.inference.expectation_propagation import move_step, propose_step
from bagwise.scale.fingerprint import fingerprint


def test_fingerprints_tell_steps_values_shapes_and_closures_apart():
    def inside(value):
        return lambda: value

    belief = Belief.prior(2, 1, torch.device("cpu"))
    different = [
        *(propose_step, move_step, inside(1), inside(2), belief, belief._replace(mean=belief.mean + 1e-16), save),
        *(0.5, 1, True, "1", None, torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(6), np.zeros(6), {"a": 1}),
    ]
    assert len({fingerprint(value) for value in different}) == len(different)
    assert fingerprint(belief, 1) == fingerprint(Belief.prior(2, 1, torch.device("cpu")), 1)
