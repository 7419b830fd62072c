import os
import shutil
from pathlib import Path

import hypothesis
import matplotlib
import pytest
import torch

import bagwise.gp.kernels  # noqa: F401  (before any test imports gpytorch: it keeps quiet what that import warns of)

matplotlib.use("Agg")
hypothesis.settings.register_profile("every day the same examples", derandomize=True)
hypothesis.settings.load_profile("every day the same examples")
# Small problems: threads only cost. Results must not rest on their number, so it can be changed to check that.
THREADS = os.environ.get("BAGWISE_TEST_THREADS", "1")
torch.set_num_threads(int(THREADS))
os.environ.setdefault("OMP_NUM_THREADS", THREADS)

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the benchmark data beside the checkout (../shared/data)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, or the one that ``BAGWISE_CHROMIUM`` names; used by ``make browser``."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make browser")
    path = os.environ.get("BAGWISE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium (BAGWISE_CHROMIUM): make browser")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()
