"""Which solver fits into memory, and what is refused before the work begins."""

import pytest
import torch

from bagwise.exceptions import BagDataError
from bagwise.inference.candidates import memory
from bagwise.inference.candidates.memory import Size, check_memory, usual_solver

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def free(monkeypatch):
    """Sets the memory that is free, in bytes."""
    return lambda size: monkeypatch.setattr(memory, "free_bytes", lambda device: float(size))


def test_usual_solver_is_exact_up_to_the_largest_number_of_instances():
    largest = memory.LARGEST_EXACT["cpu"]
    assert usual_solver(largest, CPU, torch.float64) == "exact"
    assert usual_solver(largest + 1, CPU, torch.float64) == "sparse"


def test_usual_solver_of_a_gpu_leaves_half_of_its_memory(free):
    free(2 * 1000**2 * 8)
    assert usual_solver(1000, CUDA, torch.float64) == "exact"
    assert usual_solver(1001, CUDA, torch.float64) == "sparse"
    assert usual_solver(1001, CUDA, torch.float32) == "exact"


@pytest.mark.parametrize(("solver", "parts"), [("exact", "100 instances × 3"), ("sparse", "3 matrices of 11 × 11")])
def test_too_large_a_problem_is_refused_with_its_parts(solver, parts, free):
    size = Size(100, 3, 10, 2, True)
    free(1e9)
    check_memory(solver, size, CPU, torch.float64)
    free(1e3)
    with pytest.raises(BagDataError, match=f"solver='{solver}' needs about .* GB for {parts}"):
        check_memory(solver, size, CPU, torch.float64)


def test_probes_count_only_where_the_kernel_is_learned(free):
    learned, fixed = Size(10, 2, None, 5, True), Size(10, 2, None, 5, False)
    free(6 * 10 * 2 * 8 + 10**2 * 8)
    check_memory("exact", fixed, CPU, torch.float64)
    with pytest.raises(BagDataError, match="solver='exact'"):
        check_memory("exact", learned, CPU, torch.float64)
