import os
from pathlib import Path

import matplotlib
import pytest
import torch

matplotlib.use("Agg")
torch.set_num_threads(1)  # small problems: threads only cost
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the benchmark data beside the checkout (../shared/data)")
    return SHARED_DATA
