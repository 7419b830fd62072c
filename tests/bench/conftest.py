"""Small benchmark files."""

import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path):
    """Thirty bags of two to four rows, a third of them positive; row numbers are the first feature."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 30)
    bag = np.repeat(np.arange(30), sizes)
    X = np.column_stack([np.arange(len(bag)), rng.normal(size=(len(bag), 4))]).astype(np.float32)
    arrays = {"X": X, "bag": bag, "y": np.arange(30) % 3 == 0, "instance_y": rng.integers(-1, 3, len(bag))}
    arrays["folds"] = np.tile(np.arange(30) % 5, (2, 1))
    arrays["candidates"] = np.eye(3, dtype=int)[np.arange(30) % 3] | np.eye(3, dtype=int)[(np.arange(30) + 1) % 3]
    arrays["test_bag_half"] = np.arange(30)[None] % 2
    np.savez(tmp_path / "some.npz", **arrays)
    return tmp_path


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    return {
        (row, model): list(rng.uniform(0.5, 1.0, 3) + (0.2 if model == "probit" else 0.0))
        for row in ("calm", "rough")
        for model in ("probit", "small")
    }
