"""``bagwise sort``."""

import pytest
from tests.cli.command import done, refused
from tests.io.scattered_table import new_frame


@pytest.fixture
def frame():
    return new_frame()


def test_cli_sorts_what_it_refused(frame, tmp_path):
    table, ordered = tmp_path / "in.parquet", tmp_path / "out.parquet"
    frame.to_parquet(table)
    fit = ("--model", "vgpmil", "--bag", "slide", "--label", "n", "--memory", "1KB", "-o", tmp_path / "model")
    assert "bagwise sort" in refused("fit", table, *fit)
    done("sort", table, "--bag", "slide", "-o", ordered)
    assert "varies inside the bag" in refused("fit", ordered, *fit)
