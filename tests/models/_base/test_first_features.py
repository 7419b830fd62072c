"""Features before anything is learned: a column of sizes, sparse rows projected, the kernel by the rows."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import roc_auc_score
from tests.models.sized_bags import SMALL

from bagwise import BagDataError, BagDataWarning, BagGP, Bags, ConvergenceWarning, load
from bagwise.gp import kernels


def by_size(seed, slope, n=60):
    """Bags of noise: the log odds of a label are a multiple of log n and nothing else."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 25, n)
    chance = 1.0 / (1.0 + np.exp(-slope * (np.log(sizes) - np.log(9.0))))
    y = (rng.random(n) < chance).astype(int)
    y[:2] = 0, 1
    return Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(n), sizes)), y


def by_instances(seed, n=60):
    """Bags that are positive if an instance is, which does not depend on the size of its bag."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, n)
    index = np.repeat(np.arange(n), sizes)
    X = rng.normal(size=(len(index), 2))
    positive = 2.0 * X[:, 0] - 4.0 + rng.normal(size=len(X)) > 0
    bags = Bags(X, index)
    return bags, np.maximum.reduceat(positive, bags.offsets[:-1]).astype(int)


def quietly(model, bags, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(bags, y)


@pytest.mark.parametrize(("sign", "n"), [pytest.param(1.0, 60, marks=pytest.mark.statistical), (-1.0, 30)])
def test_size_effect_has_the_sign_of_what_size_alone_does(sign, n):
    """That larger bags are more often positive is half explained by "at least one" alone, and takes more bags."""
    scores = []
    for seed in range(3):
        model = quietly(BagGP(**SMALL), *by_size(seed, sign * 8.0, n=n))
        assert model.size_effect_ is not None
        scores.append(sign * model.size_effect_.mean / model.size_effect_.sd)
    assert min(scores) > 1.0
    assert np.sum(scores) / np.sqrt(len(scores)) > 3.0


@pytest.mark.parametrize(("trials", "most"), [(2, 0), pytest.param(5, 1, marks=pytest.mark.statistical)])
def test_column_of_sizes_is_not_taken_where_instances_say_it_all(trials, most):
    taken = [quietly(BagGP(**SMALL), *by_instances(seed)).size_effect_ is not None for seed in range(trials)]
    assert sum(taken) <= most


def test_size_effect_is_kept_out_or_in_where_the_user_says_so():
    bags, y = by_size(0, -8.0)
    assert quietly(BagGP(**SMALL, learn=False, size_effect=False), bags, y).size_effect_ is None
    bags, y = by_instances(0)
    assert quietly(BagGP(**SMALL, learn=False, size_effect=True), bags, y).size_effect_ is not None


def test_several_label_columns_have_an_effect_of_size_each():
    bags, y = by_size(0, -8.0)
    model = quietly(BagGP(**SMALL, learn=False, size_effect=True), bags, np.column_stack([y, y]))
    assert model.size_effect_.mean.shape == (2,)
    np.testing.assert_allclose(model.size_effect_.mean[0], model.size_effect_.mean[1])
    assert (model.size_effect_.sd > 0).all()


@pytest.fixture(scope="module")
def sized():
    bags, y = by_size(0, -8.0)
    return quietly(BagGP(**SMALL, inference="bag-ep"), bags, y)


def test_sizes_beyond_the_fit_have_the_effect_of_the_nearest_size_seen(sized):
    smallest, largest = sized.sizes_seen_
    row = np.array([[0.3, -0.2]])
    effect, log_n = sized.size_effect_.mean, {}
    for n in (1, smallest, largest, 3 * largest):
        log_n[n] = sized.predict_latent(Bags(np.repeat(row, n, axis=0), np.zeros(n, dtype=int)))[0][0]
    assert log_n[1] == pytest.approx(log_n[smallest], abs=1e-12)
    assert log_n[3 * largest] == pytest.approx(log_n[largest], abs=1e-12)
    assert log_n[largest] - log_n[smallest] == pytest.approx(effect * np.log(largest / smallest), abs=1e-9)


def test_bags_far_outside_the_sizes_of_the_fit_are_warned_of(sized):
    _, largest = sized.sizes_seen_
    n = 2 * largest + 1
    with pytest.warns(BagDataWarning, match=rf"size_effect_.*nearest size.*|{n}"):
        sized.predict_proba(Bags(np.zeros((n, 2)), np.zeros(n, dtype=int)))
    with pytest.warns(BagDataWarning, match="size_effect_"):
        sized.predict_proba(Bags(np.zeros((1, 2)), [0]))


def test_bags_within_reach_of_the_sizes_of_the_fit_bring_no_warning(sized):
    smallest, largest = sized.sizes_seen_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (smallest, largest, 2 * largest):
            sized.predict_proba(Bags(np.zeros((n, 2)), np.zeros(n, dtype=int)))


def test_size_effect_is_saved_with_the_model(sized, tmp_path):
    bags, _ = by_size(1, -8.0)
    sized.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.size_effect_ == sized.size_effect_
    assert again.features_.size_range == sized.features_.size_range
    assert again.rule_ == sized.rule_
    np.testing.assert_array_equal(again.predict_proba(bags), sized.predict_proba(bags))


def test_a_rule_that_does_not_share_leftovers_is_saved_as_such(sized, tmp_path):
    assert sized.rule_.shares
    assert sized.rule_.describe()["shares"] is True
    bags, _ = by_size(1, -8.0)
    other = load(_saved(sized, tmp_path))
    object.__setattr__(other.rule_, "shares", False)
    again = load(_saved(other, tmp_path / "other"))
    assert not again.rule_.shares
    np.testing.assert_array_equal(again.predict_proba(bags), other.predict_proba(bags))


def _saved(model, folder):
    folder.mkdir(exist_ok=True)
    model.save(folder / "model")
    return folder / "model"


def texts(seed, n=110, width=6000, special=200):
    """Bags of short texts; two texts of a positive bag draw a third of their words from a topic of its own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, n)
    y = np.arange(n) % 2
    on_topic = np.zeros(sizes.sum(), dtype=bool)
    first = (np.cumsum(sizes) - sizes)[y == 1]
    on_topic[first] = on_topic[first + 1] = True
    common, topic = rng.dirichlet(np.full(width, 0.3)), np.zeros(width)
    topic[:special] = rng.dirichlet(np.ones(special))
    chances = np.array([common, 0.65 * common + 0.35 * topic])[on_topic.astype(int)]
    X = scipy.sparse.csr_matrix(rng.multinomial(30, chances / chances.sum(1, keepdims=True)).astype(float))
    return Bags(X, np.repeat(np.arange(n), sizes)), y


@pytest.fixture(scope="module")
def text_model():
    bags, y = texts(0)
    train = np.arange(60)
    return BagGP(n_inducing=50, random_state=0).fit(bags[train], y[train]), bags, y


def test_kernel_of_sparse_text_is_linear_and_ranks_what_an_rbf_kernel_cannot(text_model):
    model, bags, y = text_model
    test = np.arange(60, len(bags))
    assert kernels.is_linear(model.kernel_)
    assert model.features_.projection is not None
    assert roc_auc_score(y[test], model.predict_proba(bags[test])[:, 1]) > 0.9
    train = np.arange(60)
    old = BagGP(kernel="rbf", n_inducing=50, random_state=0).fit(bags[train], y[train])
    assert roc_auc_score(y[test], old.predict_proba(bags[test])[:, 1]) < 0.7


def test_answers_about_text_do_not_depend_on_its_storage(text_model):
    model, bags, _ = text_model
    some = bags[np.arange(10)]
    dense = Bags(some.X.toarray(), some.index)
    np.testing.assert_allclose(model.predict_proba(dense), model.predict_proba(some), rtol=0, atol=1e-10)


def test_bag_of_empty_rows_gets_a_probability(text_model):
    model, bags, _ = text_model
    empty = Bags(scipy.sparse.csr_matrix((5, bags.n_features)), [0, 0, 0, 1, 1])
    found = model.predict_proba(empty)
    assert ((found > 0) & (found < 1)).all()
    each = model.predict_instance_proba(empty)
    np.testing.assert_allclose(each, each[:1].repeat(5, axis=0), atol=1e-12)


def test_projection_is_saved_with_the_model(text_model, tmp_path):
    model, bags, _ = text_model
    again = load(_saved(model, tmp_path))
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))
    np.testing.assert_array_equal(again.features_.projection, model.features_.projection)


def test_words_in_a_dense_array_or_a_file_are_answered_as_in_a_sparse_matrix(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.random((60, 1000)) < 0.01) * rng.integers(1, 5, (60, 1000)).astype(float)
    X[::3, 0] = 3.0
    bag, y = np.repeat(np.arange(20), 3), np.arange(20) % 2
    np.save(tmp_path / "words.npy", X)
    stored, _ = Bags.open(tmp_path / "words.npy", bag=bag, label=y[bag])
    answers = []
    for bags in (Bags(scipy.sparse.csr_matrix(X), bag), Bags(X, bag), stored):
        model = quietly(BagGP(learn=False, n_inducing=10, random_state=0), bags, y)
        assert model.features_.projection is not None
        answers.append(model.predict_proba(bags)[:, 1])
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-8)
    np.testing.assert_allclose(answers[2], answers[0], rtol=1e-8)


@pytest.mark.parametrize(
    "X", [np.random.default_rng(0).random((12, 1)), np.eye(12), np.ones((12, 5)), np.zeros((12, 300))]
)
def test_sparse_tables_of_odd_shapes_are_fitted(X):
    bags = Bags(scipy.sparse.csr_matrix(X), np.repeat(np.arange(6), 2))
    model = BagGP(**SMALL).fit(bags, [0, 1] * 3)
    assert np.isfinite(model.predict_proba(bags)).all()


def test_a_small_dense_table_has_an_rbf_kernel_and_no_projection():
    bags, y = by_instances(0)
    model = BagGP(**SMALL, learn=False).fit(bags, y)
    assert not kernels.is_linear(model.kernel_)
    assert model.features_.projection is None


@pytest.mark.parametrize("wrong", [1, "yes", None, [True], np.array([1, 2])], ids=str)
def test_size_effects_of_another_kind_are_refused(wrong):
    bags, y = by_size(0, -8.0)
    with pytest.raises(BagDataError, match="expected 'auto', True or False"):
        BagGP(size_effect=wrong).fit(bags, y)


def test_flags_of_numpy_are_flags():
    bags, y = by_size(0, -8.0)
    assert quietly(BagGP(**SMALL, learn=False, size_effect=np.True_), bags, y).size_effect_ is not None
