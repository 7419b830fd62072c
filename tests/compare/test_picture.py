"""The picture of a comparison."""

from bagwise.compare.picture import draw_comparison


def test_picture_shows_the_best_on_top(result):
    left, right = draw_comparison(result).axes
    assert [text.get_text() for text in left.get_yticklabels()][-1] == result.best
    assert "best minus this one" in right.get_xlabel()
