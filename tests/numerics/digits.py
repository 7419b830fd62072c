"""What the tests of numerics share."""

import torch


def rounded(values, dtype):
    return torch.tensor(values, dtype=dtype)
