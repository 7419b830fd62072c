"""Which solver the memory of a device allows."""

import os
from typing import NamedTuple

import torch

from bagwise.exceptions import BagDataError
from bagwise.inference.candidates.kernel_matrix import KEPT_BYTES
from bagwise.inference.places import device_memory

LARGEST_EXACT = {"cpu": 2_000, "cuda": 40_000}  # instances up to which "auto" is exact
_GIGA = 2**30


class Size(NamedTuple):
    """How large a problem is."""

    n_instances: int
    n_classes: int
    n_inducing: int | None
    n_probes: int
    learns: bool


def usual_solver(n: int, device: torch.device, dtype: torch.dtype) -> str:
    """The exact solver as long as its matrix is small."""
    fits = device.type == "cpu" or n**2 * dtype.itemsize <= free_bytes(device) / 2
    return "exact" if n <= LARGEST_EXACT[device.type] and fits else "sparse"


def check_memory(solver: str, size: Size, device: torch.device, dtype: torch.dtype) -> None:
    """Refuse at once what would fail later for want of memory."""
    need, parts = _exact_bytes(size, device, dtype) if solver == "exact" else _sparse_bytes(size, dtype)
    free = free_bytes(device)
    if need > free:
        raise BagDataError(
            f"solver={solver!r} needs about {need / _GIGA:.1f} GB for {parts}, and there are {free / _GIGA:.1f} GB; "
            "take fewer classes or instances, a smaller n_inducing, or dtype='float32'."
        )


def _exact_bytes(size: Size, device: torch.device, dtype: torch.dtype) -> tuple[int, str]:
    n, C = size.n_instances, size.n_classes
    columns = 6 * n * C * (1 + (size.n_probes if size.learns else 0)) * dtype.itemsize
    parts = f"{n:,} instances × {C} classes × {1 + size.n_probes} columns and the kernel matrix"
    return columns + min(n**2 * dtype.itemsize, KEPT_BYTES[device.type]), parts


def _sparse_bytes(size: Size, dtype: torch.dtype) -> tuple[int, str]:
    n, C = size.n_instances, size.n_classes
    R = min(n, size.n_inducing or n) + 1
    return 3 * C * R**2 * 8 + n * (R * dtype.itemsize + 3 * C * 8), f"{C} matrices of {R:,} × {R:,} numbers"


def free_bytes(device: torch.device) -> float:
    """Memory that is free on a device; of the machine's own all there is, infinite where it does not tell."""
    if device.type == "cuda":
        return float(device_memory(device))
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
