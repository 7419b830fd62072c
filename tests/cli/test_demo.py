"""``bagwise demo``."""

from tests.cli.command import done

import bagwise
from bagwise import BagGP


def test_the_demo_finds_the_nine(tmp_path):
    result = done("demo", "--output", tmp_path / "new" / "demo")
    assert "AUC" in result.stdout
    assert str(tmp_path / "new" / "demo" / "report.html") in result.stdout.replace("\n", "")
    page = (tmp_path / "new" / "demo" / "report.html").read_text()
    assert "Which bags hold a 9?" in page
    assert len(page) < 400_000
    assert isinstance(bagwise.load(tmp_path / "new" / "demo" / "model.safetensors"), BagGP)
    assert "kernel, learned" in page
