"""Every kind of bad input has one clear error, or one documented behaviour."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.torch
import scipy.sparse
import torch
from sklearn.exceptions import NotFittedError
from tests.problems import random_bags

import bagwise
from bagwise import BagDataError, BagDataWarning, Bags, MILGPProbit, ModelFileError, persistence


@pytest.fixture
def bags():
    plain = random_bags(np.random.default_rng(0), n_bags=12, n_features=3)
    return Bags(pd.DataFrame(plain.X, columns=["u", "v", "w"]), [f"slide {b}" for b in plain.index])


@pytest.fixture
def y(bags):
    return np.arange(len(bags)) % 2


def model(**settings):
    return MILGPProbit(**{"n_inducing": 6, "max_iter": 2, "bias": 0.0, "random_state": 0, **settings})


# ---------------------------------------------------------------- bags


@pytest.mark.parametrize(
    "nothing", [[], (), np.zeros((0, 3)), pd.DataFrame({"u": []}), scipy.sparse.csr_matrix((0, 3))]
)
def test_no_bags(nothing):
    with pytest.raises(BagDataError, match=r"0 sample\(s\)"):
        model().fit(nothing, [])


@pytest.mark.parametrize("none", [np.zeros((3, 0)), [np.zeros((1, 0)), np.zeros((2, 0))]])
def test_no_features(none):
    with pytest.raises(BagDataError, match=r"0 feature\(s\)"):
        model().fit(none, [0, 1, 1][: len(none)])


def test_an_empty_bag_is_named():
    with pytest.raises(BagDataError, match="bag '1' is empty; every bag needs at least one instance"):
        model().fit([np.ones((2, 2)), np.ones((0, 2))], [0, 1])


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_feature_that_is_not_finite_is_named_by_bag_column_and_row(bags, y, value, word, sparse, named):
    X = np.array(bags.X)
    X[7, 1] = value
    order = np.random.default_rng(0).permutation(len(X))  # a table in any order of rows
    table = scipy.sparse.csr_matrix(X[order]) if sparse else X[order]
    broken = Bags(table, np.array(bags.ids)[bags.index[order]], feature_names=["u", "v", "w"] if named else None)
    column = "column 'v'" if named else "column 1"
    where = f"{word}: bag '{bags.ids[bags.index[7]]}', {column}, row {order.tolist().index(7)} of the table"
    aligned = pd.Series(y, index=list(bags.ids))
    with pytest.raises(BagDataError, match=where):
        model().fit(broken, aligned)
    fitted = model().fit(bags if named else bags.with_features(bags.X), y)
    with pytest.raises(BagDataError, match=where):
        fitted.predict_proba(broken)


def test_opposite_infinities_and_enormous_numbers_are_told_apart(bags, y):
    X = np.array(bags.X)
    X[:2, 0] = np.inf, -np.inf
    with pytest.raises(BagDataError, match="contains infinity"):
        model().fit(Bags(X, bags.index), y)
    X[:2, 0] = 1e308, 1e308  # finite, though their sum is not
    assert np.isfinite(model().fit(Bags(X, bags.index), y).predict_proba(bags.with_features(X))).all()
    X[:2, 0] = 1.7e308, -1.7e308  # finite, though their difference is not
    with pytest.raises(BagDataError, match="column 0 holds numbers too large to standardise"):
        model().fit(Bags(X, bags.index), y)


def test_wrong_number_of_features_at_prediction(bags, y):
    fitted = model().fit(bags.with_features(bags.X), y)
    for predict in (fitted.predict, fitted.predict_proba, fitted.predict_instances, fitted.predict_latent):
        with pytest.raises(BagDataError, match="X has 2 features, but MILGPProbit is expecting 3 features"):
            predict(bags.X[:, :2])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["u", "w", "v"], "Feature names must be in the same order as they were in fit"),
        (["u", "v", "x"], "(?s)unseen at fit time.*- x.*seen at fit time, yet now missing.*- w"),
    ],
)
def test_wrong_feature_names_at_prediction(bags, y, names, message):
    fitted = model().fit(bags, y)
    with pytest.raises(BagDataError, match=message):
        fitted.predict(bags.with_features(bags.X, names))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"] * 4, r"one key per row of X \(5 rows\), got 4 keys"),
        (np.zeros((5, 2)), r"got shape \(5, 2\)"),
        (None, r"got shape \(\)"),
        (["a", "b", None, "a", "b"], "the key of row 2 is missing"),
        ([1.0, np.nan, 2.0, 1.0, 2.0], "the key of row 1 is missing"),
        (pd.Series(["a", "b", "c", "d", pd.NA]), "the key of row 4 is missing"),
        ([1, "1", 2, 3, 4], "two different bags would both be called '1'"),
        ([[1], [2], [3], [4], [5]], r"groups: found \[1\], a list; expected numbers or text"),
        (["a", "b", {}, "a", "b"], r"groups: found \{\}, a dict; expected numbers or text"),
        (["a", "b", "\udcff", "a", "b"], r"the id of a bag is '\\udcff', which is not text"),
    ],
)
def test_bad_group_keys(groups, message):
    with pytest.raises(BagDataError, match=message):
        Bags(np.zeros((5, 1)), groups)


@pytest.mark.parametrize(
    "column",
    [["x", "y", "z"], pd.to_datetime(["2020-01-01"] * 3), pd.Categorical(["p", "q", "p"]), [1j, 2j, 3j], [None, 1, {}]],
)
def test_a_column_that_is_not_numeric_is_named(column):
    frame = pd.DataFrame({"bag": ["a", "b", "a"], "good": [1.0, 2.0, 3.0], "stain": column})
    with pytest.raises(BagDataError, match="column 'stain' is not numeric"):
        Bags.from_frame(frame, "bag")
    assert Bags.from_frame(frame, "bag", ignore=["stain"]).feature_names == ("good",)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (np.array([["1.5", "red"]]), BagDataError, "column 1 is not numeric .*'red'"),
        (np.array([[1.5, "red"]], dtype=object), BagDataError, "column 1 is not numeric"),
        (np.array([[1.5, {}]], dtype=object), TypeError, "column 1 holds something that is not a number"),
        (np.array([[1 + 2j]]), BagDataError, "Complex data not supported"),
        (scipy.sparse.csr_matrix([[1 + 2j]]), BagDataError, "Complex data not supported"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), BagDataError, "datetime64.*not numeric"),
        (np.zeros(3), BagDataError, "Expected 2D array .*got 1D array"),
        (np.zeros((2, 2, 2)), BagDataError, r"got 3D array .*list\(X\) for a stack of bags"),
        ([[1.0, 2.0], [3.0]], BagDataError, "rows differ in length"),
    ],
)
def test_tables_that_are_no_tables_of_numbers(X, kind, message):
    with pytest.raises(kind, match=message):
        Bags(X, ["a"])


def test_names_that_no_file_can_hold_are_refused():
    with pytest.raises(BagDataError, match=r"the name of a feature is 'a\\ud800', which is not text"):
        Bags(np.zeros((1, 1)), ["a"], feature_names=["a\ud800"])


def test_labels_and_names_that_cannot_be_told_apart_are_named(bags, y):
    frame = pd.DataFrame({"bag": ["a", "b"], "x": [1.0, 2.0], "label": [[1], [2]]})
    with pytest.raises(BagDataError, match=r"column 'label': found \[1\], a list"):
        Bags.from_frame(frame, "bag", label="label")
    with pytest.raises(BagDataError, match=r"the ids of the bags: found \[0\], a list"):
        Bags.from_list([np.zeros((1, 1))], ids=[[0]])
    with pytest.raises(BagDataError, match=r"the candidates of bag 'slide 0': found \['b'\], a list"):
        bagwise.MIPLGP().fit(bags, [["a", ["b"]]] + [["a"]] * 11)
    with pytest.raises(BagDataError, match=r"y: found \{\}, a dict"):
        model().fit(bags, y).score(bags, [{}] * 12)
    with pytest.raises(BagDataError, match=r"entry 0: found \['a'\], a list"):
        bagwise.guessed_fractions([[["a"]]], "a")
    with pytest.raises(BagDataError, match=r"Evidence.concat: found 1; expected pieces that bagwise.label"):
        bagwise.Evidence.concat([1])


@pytest.mark.parametrize("estimator", [MILGPProbit, bagwise.BagGP, bagwise.GPMIL, bagwise.VGPMIL, bagwise.MIPLGP])
def test_complex_labels_are_refused(bags, y, estimator):
    with pytest.raises(BagDataError, match="y: Complex data not supported"):
        estimator().fit(bags, y * 1j)


def test_one_name_per_column():
    with pytest.raises(BagDataError, match="3 feature names were given for 2 columns"):
        Bags(np.zeros((1, 2)), ["a"], feature_names=["u", "v", "w"])


def test_known_instance_labels_are_no_evidence_for_this_model(bags, y):
    known = bags.with_known(np.zeros(bags.n_instances))
    with pytest.raises(BagDataError, match=r"takes label, but instances.*bags.with_known\(None\)"):
        model().fit(known, y)
    np.testing.assert_array_equal(
        model().fit(known.with_known(None), y).predict(known), model().fit(bags, y).predict(bags)
    )


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize("y", [np.arange(12) % 3, list("abc") * 4])
def test_more_than_two_classes_say_where_to_go(bags, y):
    with pytest.raises(BagDataError, match=r"3 classes .* in one column.*\(B, K\) array.*MIPLGP"):
        model().fit(bags, y)


@pytest.mark.parametrize("length", [0, 11, 13])
def test_labels_of_the_wrong_length_say_how_many_bags_there_are(bags, length):
    with pytest.raises(BagDataError, match=f"y has {length} entries, but there are 12 bags"):
        model().fit(bags, np.zeros(length))


def test_labels_of_other_bags(bags, y):
    keyed = dict(zip(bags.ids, y.tolist(), strict=True))
    keyed["slide 99"] = keyed.pop("slide 3")
    with pytest.raises(BagDataError, match="no entry for bag 'slide 3' and an entry for an unknown bag 'slide 99'"):
        model().fit(bags, keyed)


def test_no_label_at_all_leaves_the_prior_and_warns(bags):
    with pytest.warns(BagDataWarning, match="every bag label is missing"):
        fitted = model(n_inducing=None).fit(bags, [None] * len(bags))
    mean, variance = fitted.predict_latent(bags)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, 1.0, rtol=1e-6)
    np.testing.assert_allclose(fitted.predict_instance_proba(bags), 0.5)
    apart = Bags(np.array([[0.0, 0, 0], [1e4, 0, 0], [0, 1e4, 0]]), [1, 1, 1])  # three independent instances
    named = apart.with_features(apart.X, bags.feature_names)
    np.testing.assert_allclose(fitted.predict_proba(named)[0, 1], 1 - 0.5**3, atol=0.02)
    assert fitted.log_evidence_ == 0.0


def test_no_label_at_all_is_an_error_in_ordinary_classification():
    with pytest.raises(BagDataError, match="no label to learn from"):
        model().fit(np.eye(3), [np.nan] * 3)


@pytest.mark.parametrize("value", [0, 1])
def test_one_class_only_fits_and_warns(bags, value):
    with pytest.warns(BagDataWarning, match=f"only one class, {value}, is among the bag labels"):
        fitted = model(bias=5.0, max_iter=None).fit(bags, np.full(len(bags), value))
    assert fitted.classes_.tolist() == [0, 1]
    assert set(fitted.predict(bags)) == {value}


@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        ([0, 1], None, "y has 2 entries, but there are 12 bags"),
        ([np.nan] * 12, None, "every label of y is missing"),
        (["0", "1"] * 6, None, "y holds '.*the model was fitted with the classes '0', '1'"),
        ([0, 2] * 6, None, "y holds '2'"),
        (np.zeros((12, 2)), None, "y has 2 label columns; the model was fitted with 1"),
        ([0, 1] * 6, [1.0], r"one weight per bag \(12\), got shape \(1,\)"),
    ],
)
def test_bad_truth_to_score_against(bags, y, weights, message):
    fitted = model().fit(bags, [0, 1] * 6)
    with pytest.raises(BagDataError, match=message):
        fitted.score(bags, y, sample_weight=weights)


# ---------------------------------------------------------------- data that are odd but allowed


def test_fewer_instances_than_inducing_points(bags, y):
    fitted = model(n_inducing=5000).fit(bags, y)
    assert fitted.features_.n_inducing == bags.n_instances
    assert fitted.features_.origin == f"all {bags.n_instances} distinct instances"


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_constant_columns_and_repeated_rows(bags, y, kernel):
    X = np.column_stack([bags.X, np.full(bags.n_instances, 7.0)])
    repeated = Bags(np.repeat(X, 3, axis=0), np.repeat(bags.index, 3))
    fitted = model(kernel=kernel, n_inducing=None).fit(repeated, y)
    assert np.isfinite(fitted.predict_proba(repeated)).all()
    assert fitted.features_.n_inducing == bags.n_instances
    flat = Bags(np.ones((4, 2)), [0, 0, 1, 1])
    answer = model(kernel=kernel, n_inducing=None).fit(flat, [0, 1]).predict_proba(flat)
    np.testing.assert_allclose(answer[0], answer[1])


def test_a_bag_of_ten_thousand(bags, y):
    rng = np.random.default_rng(0)
    crowd = Bags(np.vstack([rng.normal(size=(10_000, 3)), bags.X]), np.r_[np.full(10_000, 99), bags.index])
    fitted = model().fit(crowd, np.r_[0, y])
    answer = fitted.predict_proba(crowd)
    assert answer.shape == (13, 2)
    assert np.isfinite(answer).all()
    np.testing.assert_allclose(answer[1:], fitted.predict_proba(crowd[1:]), atol=1e-10)


# ---------------------------------------------------------------- estimators


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_instances", "predict_instance_proba", "predict_latent"]
)
def test_an_unfitted_estimator_says_so(bags, method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(MILGPProbit(), method)(bags)


def test_an_unfitted_estimator_cannot_be_scored_or_saved(bags, y, tmp_path):
    with pytest.raises(NotFittedError):
        MILGPProbit().score(bags, y)
    with pytest.raises(NotFittedError):
        MILGPProbit().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"inference": "mcmc"},
        {"max_iter": 0},
        {"max_iter": 2.0},
        {"tol": -1e-3},
        {"tol": "tiny"},
        {"tol": np.inf},
        {"bias": -1.0},
        {"bias": True},
        {"bias": None},
        {"n_inducing": 0},
        {"n_inducing": "many"},
        {"kernel": "gaussian"},
        {"kernel": None},
        {"lengthscale": 0.0},
        {"lengthscale": [1.0, 2.0, 3.0]},
        {"inducing": "grid"},
        {"inducing": np.zeros((4, 5))},
        {"standardize": "yes"},
        {"jitter": -1e-6},
        {"jitter": 1.0},
        {"jitter": np.nan},
        {"verbose": "abc"},
        {"verbose": -1},
        {"verbose": None},
        {"dtype": "float16"},
        {"dtype": torch.float64},
        {"device": "abacus"},
        {"device": "meta"},
        {"device": []},
        {"random_state": "seed"},
        {"random_state": -1},
        {"random_state": np.random.default_rng(0)},
    ],
    ids=lambda settings: f"{next(iter(settings))}={str(next(iter(settings.values())))[:20]}",
)
def test_a_bad_setting_is_named(bags, y, settings):
    with pytest.raises(BagDataError, match=next(iter(settings))):
        model(**settings).fit(bags, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there(bags, y, tmp_path, name):
    with pytest.raises(
        BagDataError, match=f"device='{name}': this machine has no usable CUDA device; use device='cpu'"
    ):
        model(device=name).fit(bags, y)
    model().fit(bags, y).save(tmp_path / "model")
    with pytest.raises(BagDataError, match="no usable CUDA device"):
        bagwise.load(tmp_path / "model", device=name)


# ---------------------------------------------------------------- model files


@pytest.fixture
def saved(bags, y, tmp_path):
    path = tmp_path / "model.safetensors"
    model().fit(bags, y).save(path)
    return path


def rewrite(path, change):
    """Change a model file in place: ``change(description, tensors)`` edits both."""
    with safetensors.safe_open(str(path), framework="pt") as file:
        description, names = json.loads(file.metadata()["bagwise"]), file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    change(description, tensors)
    persistence.write_model(path, description, tensors)  # with a checksum that fits


def put(value, *keys):
    def change(description, tensors):
        inner = description
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


def drop(*keys):
    def change(description, tensors):
        inner = description
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]

    return change


def swap(name, turn):
    def change(description, tensors):
        tensors[name] = turn(tensors[name]).contiguous()

    return change


DEEP = {"kernel": "RBFKernel", "arguments": {}, "constraints": {}}
TAMPERED = {
    "newer schema": (put(3, "schema"), "schema 3; this version reads up to schema 2. Update bagwise"),
    "schema is text": (put("1", "schema"), "damaged"),
    "schema is true": (put(True, "schema"), "damaged"),
    "schema is zero": (put(0, "schema"), "damaged"),
    "unknown model": (put("oracle", "model"), "holds a model 'oracle'; this version of bagwise has"),
    "model is a list": (put([], "model"), "holds a model"),
    "settings are a list": (put([], "parameters"), "incomplete or damaged"),
    "unknown setting": (put(1, "parameters", "surprise"), "settings that MILGPProbit does not have: .*surprise"),
    "no kernel": (drop("features", "kernel"), "incomplete or damaged"),
    "unknown kernel": (put({"kernel": "__import__"}, "features", "kernel"), "unknown kernel '__import__'"),
    "other kernel": (
        put({**DEEP, "arguments": {"ard_num_dims": 2}}, "features", "kernel"),
        "damaged|does not hold|needs",
    ),
    "enormous kernel": (put(10**15, "features", "kernel", "arguments", "ard_num_dims"), "does not hold the parameters"),
    "strange constraint": (
        put({"kind": "Evil"}, "features", "kernel", "constraints", "raw_lengthscale_constraint"),
        "raw_lengthscale_constraint by {'kind': 'Evil'}, which is no constraint",
    ),
    "columns elsewhere": (
        put([5], "features", "kernel", "arguments", "active_dims"),
        "does not fit 3 features|damaged",
    ),
    "negative bias": (put(-1.0, "features", "bias"), "no model has"),
    "bias is text": (put("big", "features", "bias"), "damaged"),
    "new bias": (put(1.0, "features", "bias"), "do not fit together"),
    "three classes": (put([0, 1, 2], "fitted", "classes"), "no model has"),
    "more features": (put(4, "fitted", "n_features"), "do not fit together"),
    "fewer names": (put(["u"], "fitted", "feature_names"), "do not fit together"),
    "more labels": (put(["a", "b"], "fitted", "label_names"), "do not fit together|damaged"),
    "negative seed": (put(-5, "fitted", "seed"), "no model has"),
    "no seed": (drop("fitted", "seed"), "incomplete or damaged"),
    "no trace": (drop("traces"), "incomplete or damaged"),
    "nan in the mean": (swap("posterior.mean", lambda part: part * np.nan), "no model has"),
    "infinite factor": (swap("posterior.factors", lambda part: part / 0.0), "no model has"),
    "zero factor": (swap("features.lower", lambda part: part * 0.0), "no model has"),
    "zero scale": (swap("features.scale", lambda part: part * 0.0), "no model has"),
    "half precision": (swap("features.inducing", lambda part: part.half()), "damaged|no model has|needs"),
    "whole numbers": (swap("posterior.mean", lambda part: part.long()), "no model has"),
    "short mean": (swap("posterior.mean", lambda part: part[:-1]), "do not fit together"),
    "flat mean": (swap("posterior.mean", lambda part: part[:, 0]), "damaged"),
    "flat inducing": (swap("features.inducing", lambda part: part[0]), "damaged|do not fit"),
    "cut inducing": (swap("features.inducing", lambda part: part[:, :2]), "do not fit together"),
    "wrong factor": (swap("posterior.factor_of", lambda part: part + 7), "do not fit together"),
    "factors chosen by yes and no": (swap("posterior.factor_of", lambda part: part.bool()), "do not fit together"),
    "nan kernel": (swap("kernel.raw_lengthscale", lambda part: part * np.nan), "is not finite"),
    "no posterior": (lambda description, tensors: tensors.pop("posterior.mean"), "incomplete or damaged"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_model_file_that_was_tampered_with(saved, name):
    change, message = TAMPERED[name]
    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=f"model.safetensors: .*({message})"):
        bagwise.load(saved)


def test_rewriting_alone_does_no_harm(saved, bags):
    before = bagwise.load(saved).predict_proba(bags)
    rewrite(saved, lambda description, tensors: None)
    np.testing.assert_array_equal(bagwise.load(saved).predict_proba(bags), before)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 20, 1000, -1, -200])
def test_a_truncated_model_file(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match="not a readable model file, perhaps cut short"):
        bagwise.load(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"slide,area\n1,2\n",
        b"\x80\x04\x95cos\nsystem\n",
        b"PK\x03\x04",
        b"\xff" * 64,
        bytes(range(256)) * 8,
    ],
    ids=["empty", "json", "csv", "pickle", "zip", "ones", "bytes"],
)
def test_a_file_of_another_kind(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not a readable model file"):
        bagwise.load(path)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"bagwise": "not json"},
        {"bagwise": "[1]"},
        {"bagwise": "3"},
        {"bagwise": "{}"},
        {"bagwise": "[" * 10**5},
    ],
)
def test_a_safetensors_file_of_another_program(tmp_path, metadata):
    path = tmp_path / "other"
    safetensors.torch.save_file({"weights": torch.zeros(3)}, path, metadata=metadata)
    with pytest.raises(ModelFileError, match="a safetensors file, but not one that bagwise wrote"):
        bagwise.load(path)


def test_a_model_file_that_is_too_large_is_not_even_opened(saved, monkeypatch):
    monkeypatch.setattr(persistence, "MAX_BYTES", 1000)
    with pytest.raises(ModelFileError, match=r"bytes is more than a model file may have \(1,000\)"):
        bagwise.load(saved)


def test_paths_that_are_no_files(tmp_path, bags, y):
    with pytest.raises(ModelFileError, match="not a readable model file"):
        bagwise.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        bagwise.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="missing"):
        model().fit(bags, y).save(tmp_path / "missing" / "model")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- files of bags


@pytest.mark.parametrize(
    "content", [b"", b"area,bag\n", b"PK\x03\x04 not a zip", b"\x93NUMPY\x01\x00", b"\x80\x04\x95cos\nsystem\n"]
)
def test_a_file_that_holds_no_bags(tmp_path, content):
    path = tmp_path / "bags.npz"
    path.write_bytes(content)
    with pytest.raises(BagDataError, match=r"bags.npz: not a readable file of bags"):
        Bags.load(path)


def test_arrays_without_bags_and_objects(tmp_path, bags):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", X=np.zeros((2, 2)))
    np.savez(tmp_path / "objects.npz", format="bagwise-bags-1", X=np.array([{}], dtype=object))
    bags.save(tmp_path / "cut.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-300])
    for name in ("array.npy", "objects.npz", "cut.npz"):
        with pytest.raises(BagDataError, match="not a readable file of bags"):
            Bags.load(tmp_path / name)
    with pytest.raises(BagDataError, match=r"not written by Bags.save; bagwise.datasets.read_npz"):
        Bags.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        Bags.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": None},
        {"ids": np.array(["a"])},
        {"offsets": np.array([0, 0, 3])},
        {"offsets": np.array([0, 2, 1])},
        {"offsets": np.array([0, 2, 9])},
        {"offsets": np.array([0.0, 2.0, 3.0])},
        {"rows": np.array([0, 1])},
        {"known": np.array([0.0, 5.0, 1.0])},
        {"feature_names": np.array(["u"])},
        {"X": np.zeros((0, 2))},
        {"X": np.array([["p", "q"]] * 3)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_damaged_file_of_bags(tmp_path, changes):
    path = tmp_path / "bags.npz"
    Bags(np.ones((3, 2)), ["a", "a", "b"], feature_names=["u", "v"], known=[0, 1, np.nan]).save(path)
    with np.load(path) as archive:
        parts = {name: archive[name] for name in archive.files} | changes
    np.savez(path, **{name: part for name, part in parts.items() if part is not None})
    with pytest.raises(BagDataError, match=r"bags.npz: the file of bags is damaged"):
        Bags.load(path)


def test_a_sparse_file_that_points_outside_its_matrix(tmp_path):
    path = tmp_path / "bags.npz"
    Bags(scipy.sparse.csr_matrix(np.eye(3)), ["a", "b", "c"]).save(path)
    with np.load(path) as archive:
        parts = {name: archive[name] for name in archive.files}
    parts["indices"] = parts["indices"] + 10**6
    np.savez(path, **parts)
    with pytest.raises(BagDataError, match="damaged"):
        Bags.load(path)


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "bags.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(BagDataError, match=r"bags.npz"):
        Bags.load(tmp_path / "bags.npz")
