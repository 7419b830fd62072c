"""Published figures as they are typed in."""

import pytest
from tests.bench.summaries import summary_of

from bagwise.bench.description import typed


def test_published_rows_are_recounted():
    figures = typed(
        "Nobody, table 1", [("probit", "instance auc"), ("small", "instance auc")], "calm 0.8 0.7\nrough 0.6 0.6"
    )
    values = {(row, model): [0.5, 0.6] for row in ("calm", "rough") for model in ("probit", "small")}
    (one,) = [c for c in summary_of(values, published=figures).comparisons() if c.metric == "instance auc"]
    assert one.published == (1, 1, 0)
    assert (one.higher, one.equal, one.lower) == (0, 2, 0)


def test_typed_figures_become_rows_models_means_and_errors():
    found = typed("Here", [("a", "m"), ("b", "m")], "\n  row 88.5±3.5 -\n  other 1 2 \n", scale=0.01)
    assert [tuple(figure[1:]) for figure in found] == [
        ("row", "a", "m", pytest.approx(0.885), pytest.approx(0.035)),
        ("other", "a", "m", 0.01, None),
        ("other", "b", "m", 0.02, None),
    ]
    with pytest.raises(ValueError, match="argument"):
        typed("Here", [("a", "m")], "row 1 2")
