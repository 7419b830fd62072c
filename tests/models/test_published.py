"""published() is the setting of each paper; the defaults converge where that setting does not."""

import numpy as np
import pytest

from bagwise import GPMIL, LMVGPMIL, MIPLGP, VGPMIL, BagDataError, Bags, GroupKernelMachine, MILGPProbit, load
from bagwise.bag_models.rules import AtLeastOne
from bagwise.datasets import make_bags
from bagwise.metrics import log_likelihood

_LOGISTIC = {
    "updates": "sequential",
    "n_inducing": 50,
    "inducing": "kmeans++",
    "max_iter": 25,
    "tol": 0.0,
    "kernel": "rbf",
    "lengthscale": None,
    "bias": 0.0,
    "standardize": False,
}
SETTINGS = {
    MILGPProbit: {
        "inference": "vi",
        "n_inducing": 50,
        "inducing": "kmeans++",
        "max_iter": 25,
        "tol": 0.0,
        "kernel": "rbf",
        "lengthscale": None,
        "bias": 0.0,
        "standardize": False,
        "leftovers": "independent",
        "noise": "published",
        "scheme": "single-site",
        "scale_step": False,
        "n_chains": 1,
        "n_samples": 5000,
        "n_burn_in": 1000,
    },
    VGPMIL: {**_LOGISTIC, "H": 100.0, "evidence": "label"},
    LMVGPMIL: {**_LOGISTIC, "H": 1e12, "C": 2.0, "V": 2.0, "start": "published"},
    GPMIL: {
        "approximation": "witness",
        "witnesses": "soft",
        "decision": "mode",
        "n_stages": 3,
        "pooling": "sum",
        "sharpness": 1.0,
        "link": "logistic",
        "kernel": "rbf",
        "learn": True,
        "bias": 0.0,
        "standardize": False,
    },
    MIPLGP: {
        "learn_start": 0,
        "disambiguation": "dirichlet",
        "augment": True,
        "at_least_one": False,
        "alpha_eps": 1e-4,
        "solver": "exact",
        "rank": 100,
        "n_rounds": 50,
        "tol": 0.0,
        "learn": True,
        "n_steps": 1,
        "bias": 0.0,
        "standardize": False,
    },
    GroupKernelMachine: {
        "evidence": "fraction",
        "confidence": 1000.0,
        "kernel": "rbf",
        "n_centres": None,
        "a": 1.0,
        "b": 1.0,
        "mu": 1.0,
        "nu": 1.0,
        "n_chains": 1,
        "n_samples": 1000,
        "n_burn_in": 1000,
        "z_update": "random-walk",
        "constant": False,
        "scale_step": False,
        "standardize": False,
    },
}


def named(model):
    return model.__name__


# ---------------------------------------------------------------- the settings


@pytest.mark.parametrize("model", SETTINGS, ids=named)
def test_published_has_the_setting_of_the_paper(model):
    found = model.published().get_params(deep=False)
    assert {name: found[name] for name in SETTINGS[model]} == SETTINGS[model]


@pytest.mark.parametrize("model", SETTINGS, ids=named)
def test_published_takes_changes_and_refuses_names_it_does_not_know(model):
    changed = model.published(standardize=True, random_state=3)
    assert changed.standardize
    assert changed.random_state == 3
    assert type(changed) is model
    with pytest.raises(TypeError, match="colour"):
        model.published(colour="red")


def test_published_kernel_of_candidates_begins_at_one_and_has_no_variance_to_learn():
    kernel = MIPLGP.published().kernel
    assert kernel.lengthscale.item() == pytest.approx(1.0, abs=1e-12)
    assert kernel.nu == 2.5
    assert [name for name, _ in kernel.named_parameters()] == ["raw_lengthscale"]
    kernel.lengthscale = 7.0
    assert MIPLGP.published().kernel.lengthscale.item() == pytest.approx(1.0, abs=1e-12)


# ---------------------------------------------------------------- lengthscale √D


def test_lengthscale_in_other_words_is_refused():
    bags, y, _ = make_bags(12, 3, random_state=0)
    with pytest.raises(BagDataError, match="lengthscale='sqrt'"):
        VGPMIL(lengthscale="sqrt").fit(bags, y)


# ---------------------------------------------------------------- leftovers


def rare_inputs():
    """A model with one inducing input, so that much is left over; five copies of an instance far from it."""
    bags, y, _ = make_bags(30, 4, random_state=0)
    return bags, y, Bags(np.full((5, 2), 4.0), np.zeros(5))


@pytest.mark.parametrize("inference", ["vi", "gibbs"])
@pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning")
def test_copies_count_once_with_shared_leftovers_and_five_times_with_independent_ones(inference, tmp_path):
    bags, y, copies = rare_inputs()
    settings = {"inference": inference, "n_inducing": 1, "n_samples": 40, "n_burn_in": 20, "random_state": 0}
    shared, independent = (
        MILGPProbit(leftovers=leftovers, **settings).fit(bags, y) for leftovers in ("shared", "independent")
    )
    assert (shared.rule_, independent.rule_) == (AtLeastOne(shares=True), AtLeastOne(shares=False))
    one = shared.predict_instance_proba(copies)[0, 1]
    assert independent.predict_instance_proba(copies)[0, 1] == one
    p_shared, p_independent = (model.predict_proba(copies)[0, 1] for model in (shared, independent))
    assert one < p_shared < p_independent - 0.05
    independent.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.leftovers == "independent"
    assert again.predict_proba(copies)[0, 1] == p_independent


def test_leftovers_of_another_name_are_refused():
    bags, y, _ = rare_inputs()
    with pytest.raises(BagDataError, match="leftovers='none'"):
        MILGPProbit(leftovers="none").fit(bags, y)


# ---------------------------------------------------------------- defaults


@pytest.fixture(scope="module")
def large_bags():
    return make_bags(80, (26, 89), random_state=0)[:2], make_bags(100, (26, 89), random_state=1)[:2]


@pytest.mark.parametrize("model", [MILGPProbit, pytest.param(VGPMIL, marks=pytest.mark.statistical)], ids=named)
def test_defaults_converge_on_large_bags_where_the_published_setting_calls_nearly_all_of_them_positive(
    model, large_bags
):
    (bags, y), (new, truth) = large_bags
    published = model.published(random_state=0).fit(bags, y)
    assert not published.converged_
    assert np.mean(published.predict(new) == 1) > 0.9
    usual = model(random_state=0).fit(bags, y)
    assert usual.converged_
    assert np.mean(usual.predict(new) == 1) < 0.75
    better, worse = (log_likelihood(truth, each.predict_proba(new)[:, 1]) for each in (usual, published))
    assert better > worse + 0.1
    assert better > np.log(0.5)
