"""The contract that every estimator of bags keeps; usable for estimators written elsewhere."""

import functools
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from bagwise._contract_problems import (
    easy_problem,
    has_latent,
    small_problem,
    takes_candidates,
    takes_only_fractions,
)
from bagwise.bag_models.rules import Rule
from bagwise.bags import Bags
from bagwise.evidence.statements import count, fraction, label
from bagwise.exceptions import BagDataError, BagDataWarning
from bagwise.gp.kernels import trainable_kernel

SAME = 1e-10  # what rounding may change in a probability
LEARNED = 0.85  # accuracy on new bags, and AUC on their instances, of a problem that every model should solve

Check = Callable[[Any], None]


def check_bag_estimator(estimator: Any) -> None:
    """Raise AssertionError, naming the check, if the estimator breaks the contract.

    ``estimator`` is unfitted and cheap to fit; it is cloned for every check. Each check is also available on its own
    in ``CHECKS``.
    """
    for check in CHECKS:
        try:
            check(estimator)
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}: {error}") from error


def check_parameters(estimator: Any) -> None:
    """``clone``, ``get_params`` and ``set_params`` work and the constructor only assigns."""
    parameters = estimator.get_params()
    copy = clone(estimator)
    assert set(copy.get_params()) == set(parameters), "clone changes the set of parameters"
    copy.set_params(random_state=7)
    assert copy.get_params()["random_state"] == 7, "set_params does not set"
    assert estimator.get_params()["random_state"] == parameters["random_state"], "set_params reaches the original"
    assert not [name for name in vars(copy) if name.endswith("_")], "the constructor sets fitted attributes"


def check_answers(estimator: Any) -> None:
    """Probabilities have the promised shapes, sum to one and agree with the decisions."""
    bags, y = small_problem(estimator)
    model = _fit(estimator, bags, y)
    bag, instance = model.predict_proba(bags), model.predict_instance_proba(bags)
    classes, of_instances = model.classes_, model.instance_classes_ if model.of_classes else model.classes_
    assert bag.shape == (len(bags), len(classes)), f"predict_proba has shape {bag.shape}"
    shape = (bags.n_instances, len(of_instances))
    assert instance.shape == shape, f"predict_instance_proba has shape {instance.shape}"
    for values in (bag, instance):
        assert ((values >= 0) & (values <= 1)).all(), "not probabilities"
        np.testing.assert_allclose(values.sum(axis=1), 1.0, atol=1e-12, err_msg="probabilities do not sum to one")
    best = bag.argmax(axis=1)
    assert (model.predict(bags) == classes[best]).all(), "predict and predict_proba disagree"
    decided = of_instances[instance.argmax(axis=1)]
    assert (model.predict_instances(bags) == decided).all(), "predict_instances and predict_instance_proba disagree"
    if has_latent(estimator):
        mean, variance = model.predict_latent(bags)
        several = (bags.n_instances, model.posterior_.mean.shape[1])
        functions = several if takes_candidates(estimator) else (bags.n_instances,)
        assert mean.shape == variance.shape == functions, "predict_latent has the wrong shape"
        assert (variance > 0).all(), "a latent variance is not positive"
    holds = (y > 0).astype(int) if takes_only_fractions(estimator) else y
    right = y[np.arange(len(bags)), best] == 1 if y.ndim == 2 else classes[best] == holds
    assert model.score(bags, y) == np.mean(right), "score is not the accuracy over bags"


def check_class_values(estimator: Any) -> None:
    """Any two class values will do, and the second in sorted order is positive; candidates may have any names.

    (Fractions have no classes but "it holds none" and "it holds some".)
    """
    if takes_only_fractions(estimator):
        return
    bags, y = small_problem(estimator)
    plain = _fit(estimator, bags, y).predict_proba(bags)
    if takes_candidates(estimator):
        _check_candidate_names(estimator, bags, y, plain)
        return
    for low, high in (("no", "yes"), (-1, 1), (False, True), (3, 8)):
        named = np.where(y == 1, high, low)
        model = _fit(estimator, bags, named)
        assert list(model.classes_) == [low, high], f"classes_ is {model.classes_}"
        _same(model.predict_proba(bags), plain, f"class values {low!r}, {high!r} change the answer")
        assert set(model.predict(bags)) <= {low, high}, "predict answers with other values than the classes"


def _check_candidate_names(estimator: Any, bags: Bags, y: NDArray[Any], plain: NDArray[Any]) -> None:
    for names in (("ant", "bee", "cat"), (3, 5, 8)):
        sets = [{name for name, there in zip(names, row, strict=True) if there} for row in y]
        for form in (sets, dict(zip(bags.ids, sets, strict=True))):
            model = _fit(estimator, bags, form)
            assert list(model.classes_) == list(names), f"classes_ is {model.classes_}"
            _same(model.predict_proba(bags), plain, f"sets of the names {names} change the answer")
            assert set(model.predict(bags)) <= set(names), "predict answers with other values than the classes"
    frame = pd.DataFrame(y, index=list(bags.ids), columns=["ant", "bee", "cat"])
    _same(_fit(estimator, bags, frame.iloc[::-1]).predict_proba(bags), plain, "a frame keyed by id differs")


def check_order(estimator: Any) -> None:
    """The order of bags and instances, and the company of other bags, change no prediction."""
    bags, y = small_problem(estimator)
    model = _fit(estimator, bags, y)
    bag, instance = model.predict_proba(bags), model.predict_instance_proba(bags)
    order = np.random.default_rng(0).permutation(len(bags))
    _same(model.predict_proba(bags[order]), bag[order], "the order of the bags matters")
    _same(np.concatenate([model.predict_proba(bags[b]) for b in range(len(bags))]), bag, "the company of bags matters")
    rows = np.random.default_rng(1).permutation(bags.n_instances)
    mixed = Bags(bags.X[rows], bags.index[rows])
    back = [mixed.ids.index(name) for name in map(str, range(len(bags)))]
    _same(model.predict_proba(mixed)[back], bag, "the order of the instances matters to bags")
    _same(model.predict_instance_proba(mixed), instance[rows[mixed.rows]], "the order of the instances matters")


def check_forms(estimator: Any) -> None:
    """A list of arrays means the same bags; a plain 2-D array means bags of one."""
    bags, y = small_problem(estimator)
    arrays = [X for _, X in bags]
    model, other = _fit(estimator, bags, y), _fit(estimator, arrays, y)
    _same(other.predict_proba(arrays), model.predict_proba(bags), "a list of arrays gives another answer")
    instance = model.predict_instance_proba(bags)[:, : len(model.classes_)]
    instance = instance / instance.sum(axis=1, keepdims=True)  # a bag cannot be of "none of them"
    _same(model.predict_proba(bags.X), instance, "a bag of one differs from its instance")
    keyed = dict(zip(bags.ids, y, strict=True))
    _same(_fit(estimator, bags, keyed).predict_proba(bags), model.predict_proba(bags), "labels keyed by id differ")


def check_repeatable(estimator: Any) -> None:
    """The same ``random_state`` gives the same model; fitting again forgets the first fit."""
    bags, y = small_problem(estimator)
    first, second = _fit(estimator, bags, y), _fit(estimator, bags, y)
    _same(first.predict_proba(bags), second.predict_proba(bags), "two fits with one random_state differ", 0.0)
    other_bags, other_y = small_problem(estimator, seed=5)
    refitted = _fit(estimator, other_bags, other_y).fit(bags, y)
    _same(refitted.predict_proba(bags), first.predict_proba(bags), "a second fit remembers the first", 0.0)
    assert first.fit(bags, y) is first, "fit does not return self"


def check_no_mutation(estimator: Any) -> None:
    """Neither the user's arrays nor the constructor's arguments are changed."""
    bags, y = small_problem(estimator)
    X, labels = np.array(bags.X), y.copy()
    own = Bags(X, bags.index)
    before = X.copy()
    model = _fit(estimator, own, labels)
    model.predict_proba(own)
    model.predict_instance_proba(own)
    _same(before, X, "fit or predict changes the features it was given", 0.0)
    _same(labels, y, "fit changes the labels it was given", 0.0)
    assert repr(_seeded(estimator)) == repr(clone(model)), "fit changes a constructor argument"


def check_duplicates(estimator: Any) -> None:
    """Repeated rows, repeated bags and constant columns are ordinary data."""
    bags, y = small_problem(estimator)
    X = np.column_stack([np.repeat(bags.X, 2, axis=0), np.ones(2 * bags.n_instances)])
    doubled = Bags(X, np.repeat(bags.index, 2))
    assert np.isfinite(_fit(estimator, doubled, y).predict_proba(doubled)).all(), "duplicate rows break the fit"
    twice = np.concatenate([np.arange(len(bags))] * 2)
    assert np.isfinite(_fit(estimator, bags[twice], y[twice]).predict_proba(bags)).all(), "repeated bags break the fit"


def check_missing_labels(estimator: Any) -> None:
    """A bag without a label states nothing; no label at all leaves the prior, with a warning.

    (Without any candidate there is no class at all: an error.)
    """
    bags, y = small_problem(estimator)
    some = y.astype(float)
    some[::3] = np.nan
    assert np.isfinite(_fit(estimator, bags, some).predict_proba(bags)).all(), "missing labels break the fit"
    if takes_candidates(estimator):
        _raises(BagDataError, lambda: clone(estimator).fit(bags, some * np.nan), "nothing known is taken")
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _seeded(estimator).fit(bags, np.full(len(bags), np.nan))
    assert any(issubclass(w.category, BagDataWarning) for w in caught), "no warning when every label is missing"
    if has_latent(estimator):
        assert np.allclose(model.predict_latent(bags)[0], 0.0), "without labels the latent mean is not the prior's"
    else:
        assert np.ptp(model.predict_instance_proba(bags), axis=0).max() == 0.0, "without labels instances differ"


def check_columns(estimator: Any) -> None:
    """Several labels at once answer with one column each (not where y holds candidates or nothing but fractions)."""
    if takes_candidates(estimator) or takes_only_fractions(estimator):
        return
    bags, y = small_problem(estimator)
    both = np.column_stack([y, 1 - y])
    model = _fit(estimator, bags, both)
    assert model.predict_proba(bags).shape == both.shape, "predict_proba does not have one column per label"
    assert model.predict_instance_proba(bags).shape == (bags.n_instances, 2), "nor does predict_instance_proba"
    assert model.predict(bags).shape == both.shape, "nor does predict"


def check_kernel_variance(estimator: Any) -> None:
    """k(x, x) comes from the kernel: with variance 4 and no bias, far from all data the latent variance is 4.

    (A kernel machine has no variance of its own: its function is a sum over centres, and far from all of them it is 0.
    An estimator without a latent function has none to look at.)
    """
    if not has_latent(estimator):
        return
    bags, y = small_problem(estimator)
    kernel = trainable_kernel("rbf", bags.n_features, lengthscale=1.0, variance=4.0, ard=False)
    fixed = {"kernel": kernel, "bias": 0.0, "learn": False}
    settings = {name: value for name, value in fixed.items() if name in estimator.get_params()}
    model = _fit(clone(estimator).set_params(**settings), bags, y)
    _, variance = model.predict_latent(Bags(np.full((1, bags.n_features), 1e4), [0]))
    expected = 0.0 if model.features_.lower is None else 4.0
    far = np.abs(variance[0] - expected).max() < 1e-9
    assert far, f"far from all data the latent variance is {variance[0]}, not {expected}"
    assert (model.predict_latent(bags)[1] > 0).all(), "a latent variance is not positive"


def check_learns(estimator: Any) -> None:
    """On an easy problem, with bags larger than one, new bags and their instances are told apart."""
    bags, y, _ = easy_problem(estimator)
    new, new_y, new_truth = easy_problem(estimator, seed=1)
    model = _fit(estimator, bags, y)
    accuracy = model.score(new, new_y)
    assert accuracy >= LEARNED, f"only {accuracy:.2f} of the bags of an easy problem are told apart"
    positive = 1.0 - model.predict_instance_proba(new)[:, -1 if takes_candidates(estimator) else 0]
    if takes_candidates(estimator) and not has_latent(estimator) and np.ptp(positive) == 0.0:
        return  # a baseline that knows no "none of them"
    auc = roc_auc_score(new_truth, positive)
    assert auc >= LEARNED, f"the positive instances of an easy problem are ranked with an AUC of {auc:.2f} only"


def check_rule(estimator: Any) -> None:
    """Fit and prediction agree on what a bag is, and no answer depends on a constructor argument after the fit."""
    bags, y, _ = easy_problem(estimator, sizes=(12, 20))
    model = _fit(estimator, bags, y)
    y = (y > 0).astype(int) if takes_only_fractions(estimator) else y
    if has_latent(estimator):
        assert isinstance(model.rule_, Rule), "a fitted model must say what a bag is: rule_"
    classes = model.predict_proba(bags)
    wanted = (y / y.sum(axis=1, keepdims=True) if y.ndim == 2 else np.column_stack([1 - y, y])).mean(axis=0)
    off = np.abs(classes.mean(axis=0) - wanted).max()
    assert off <= 0.25, f"on its own training bags the mean probability of a class is {off:.2f} off its share"
    before = _everything(model, bags)
    for name in model.get_params(deep=False):
        setattr(model, name, object())
    try:
        after = _everything(model, bags)
    except Exception as error:  # whatever became of a meaningless setting
        raise AssertionError(f"an answer depends on a constructor argument after the fit ({error!r})") from error
    for name, answer in after.items():
        _same(answer, before[name], f"{name} depends on a constructor argument after the fit", 0.0)


def _everything(model: Any, bags: Bags) -> dict[str, NDArray[Any]]:
    """Every answer about some bags that needs no further argument."""
    answers = {"predict_proba": model.predict_proba(bags), "predict_instance_proba": model.predict_instance_proba(bags)}
    if model.abilities.latent:
        answers["predict_latent"] = model.predict_latent(bags)
    if model.abilities.fractions:
        answers["predict_fraction"] = model.predict_fraction(bags)
    return {name: np.concatenate([np.ravel(part) for part in answer]) for name, answer in answers.items()}


def check_undeclared_evidence(estimator: Any) -> None:
    """Evidence that the model's card does not list is refused."""
    bags, y = small_problem(estimator)
    some = np.full(bags.n_instances, np.nan)
    some[0] = 0.0
    share = np.full(len(bags), 0.5)
    undeclared = {
        "known": (bags.with_known(some), y),
        "fraction": (bags, fraction(share)),
        "count": (bags, count(np.zeros(len(bags)), bags.sizes)),
        "label": (bags, label((share > 0).astype(float))),
    }
    for kind, (given, stated) in undeclared.items():
        if kind not in estimator.card.evidence:
            act = functools.partial(_fit, estimator, given, stated)
            _raises(BagDataError, act, f"evidence of the kind {kind} is taken, though the card does not list it")


def check_files(estimator: Any) -> None:
    """A model loaded in a new process predicts bit for bit the same."""
    bags, y = small_problem(estimator)
    model = _fit(estimator, bags, y)
    own = type(estimator)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        model.save(where / "model.safetensors")
        bags.save(where / "bags.npz")
        script = _RELOAD.format(module=own.__module__, name=own.__qualname__)
        known = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-W", "ignore", "-c", script, folder], check=True, env=known)
        _same(np.load(where / "bag.npy"), model.predict_proba(bags), "a loaded model answers otherwise for bags", 0.0)
        _same(np.load(where / "instance.npy"), model.predict_instance_proba(bags), "… for instances", 0.0)


def check_errors(estimator: Any) -> None:
    """Bad input gives one clear error, of a kind that is also a ValueError."""
    bags, y = small_problem(estimator)
    _raises(NotFittedError, lambda: clone(estimator).predict(bags), "an unfitted model predicts")
    _raises(BagDataError, lambda: clone(estimator).fit(bags, y[:-1]), "labels of the wrong length are taken")
    _raises(BagDataError, lambda: clone(estimator).fit([], []), "an empty list of bags is taken")
    X = np.array(bags.X)
    X[3, 1] = np.nan
    _raises(BagDataError, lambda: clone(estimator).fit(Bags(X, bags.index), y), "NaN features are taken")
    _raises(BagDataError, lambda: _fit(estimator, bags, y).predict(Bags(bags.X[:, :1], bags.index)), "columns may lack")


CHECKS: tuple[Check, ...] = (
    check_parameters,
    check_answers,
    check_class_values,
    check_order,
    check_forms,
    check_repeatable,
    check_no_mutation,
    check_duplicates,
    check_missing_labels,
    check_columns,
    check_kernel_variance,
    check_learns,
    check_rule,
    check_undeclared_evidence,
    check_files,
    check_errors,
)

_RELOAD = """
import sys, numpy as np, bagwise
from {module} import {name}
folder = sys.argv[1]
model, bags = {name}.load(folder + "/model.safetensors"), bagwise.Bags.load(folder + "/bags.npz")
np.save(folder + "/bag.npy", model.predict_proba(bags))
np.save(folder + "/instance.npy", model.predict_instance_proba(bags))
"""


def _seeded(estimator: Any) -> Any:
    """A copy with a seed; one that takes several kinds of evidence learns that these are labels, if not candidates."""
    several = "evidence" in estimator.get_params() and not takes_candidates(estimator)
    labels = {"evidence": "label"} if several else {}
    return clone(estimator).set_params(random_state=0, **labels)


def _fit(estimator: Any, bags: Any, y: Any) -> Any:
    return _seeded(estimator).fit(bags, y)


def _same(found: NDArray[Any], expected: NDArray[Any], message: str, tolerance: float = SAME) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=message)


def _raises(kind: type[Exception], act: Callable[[], object], message: str) -> None:
    try:
        act()
    except kind:
        return
    raise AssertionError(message)
