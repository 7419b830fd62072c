"""Where classes have to be guessed."""

import torch

from bagwise.inference.class_start import leaves_choice


def test_only_sets_of_several_candidates_leave_a_choice():
    known = torch.tensor([[True, False, False], [False, False, False]])
    assert not leaves_choice(known)
    assert leaves_choice(known | torch.tensor([[True, True, False], [False, False, False]]))
