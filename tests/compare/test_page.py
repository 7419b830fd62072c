"""The page of a comparison tells of failures."""

from tests.compare.comparison import SVM

from bagwise import MILGPProbit
from bagwise.baselines import BagStatisticsSVM
from bagwise.compare import compare_models
from bagwise.compare.page import verdict, write_comparison


def test_model_that_fails_is_told_of_and_does_not_win(problem, tmp_path):
    bags, y, _ = problem
    models = {"fine": BagStatisticsSVM(**SVM), "broken": MILGPProbit(n_inducing=-1)}
    found = compare_models(bags, y, models, folds=2)
    assert found.best == "fine"
    assert not found.is_complete
    assert any(text.startswith("broken failed: ") and "n_inducing" in text for text in verdict(found))
    paths = write_comparison(found, tmp_path, ["<b>&"])
    assert [path.name for path in paths] == ["comparison.csv", "comparison.png", "comparison.html"]
    assert "&lt;b&gt;&amp;" in paths[2].read_text()
