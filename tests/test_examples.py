"""Every example runs without a warning, draws something, and saves it only where it is told to."""

import runpy
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


@pytest.fixture
def main(request, tmp_path, monkeypatch):
    """The ``main`` of an example, read as its user's Python would, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    yield runpy.run_path(str(request.param))["main"]
    plt.close("all")


def test_there_are_examples():
    assert "plot_deep_features" in [path.stem for path in EXAMPLES]


SLOW = ("plot_mixtures", "plot_deep_features", "plot_logistic")  # in the long run, and whenever the site is built


@pytest.mark.parametrize(
    "main",
    [pytest.param(path, marks=[pytest.mark.statistical] * (path.stem in SLOW), id=path.stem) for path in EXAMPLES],
    indirect=True,
)
def test_an_example_draws_what_it_promises(main, tmp_path):
    figure = main(tmp_path / "picture.png")
    drawn = [ax for ax in figure.axes if ax.collections or ax.lines or ax.patches or ax.images]
    assert drawn, "nothing was drawn"
    assert all(ax.get_title() or ax.get_title("left") or ax.get_xlabel() or ax.get_ylabel() for ax in drawn)
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
    assert matplotlib.image.imread(tmp_path / "picture.png").std() > 0.01


def test_nothing_is_saved_where_nobody_asks(tmp_path, monkeypatch):
    """As in a notebook: the figure comes back, the folder stays empty."""
    monkeypatch.chdir(tmp_path)
    quickest = next(path for path in EXAMPLES if path.stem == "plot_labels")
    assert runpy.run_path(str(quickest))["main"]().axes
    plt.close("all")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert f"Run: ``python examples/{path.name} [picture.png]``" in text
    assert 'if __name__ == "__main__":' in text
