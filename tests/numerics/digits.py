"""Numbers of many digits, rounded."""

import torch


def rounded(values, dtype):
    return torch.tensor(values, dtype=dtype)
