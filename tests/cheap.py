"""Settings that make every estimator quick enough for the contract."""

COLD = {"max_rounds": 2, "cooling": 4.0}
CHEAP = {
    # Chains that are long enough to answer, not to be trusted: hence their warnings are for nobody here.
    "group-kernel-machine": {"n_chains": 2, "n_samples": 60, "n_burn_in": 40, "n_moves": 10, "evidence": "label"},
    "bag-gp": {"n_inducing": 40},
    "gpmil": {"n_restarts": 1},
    "lm-vgpmil": {"tol": 1e-3},
    "miplgp": {"n_rounds": 10},
    "al-svm": COLD,
    "alp-svm": COLD,
    "attention-mil": {"hidden": 8, "attention": 4, "n_epochs": 8, "learning_rate": 0.05},
    "aw-svm": COLD,
    "bag-statistics-svm": {"C": (1.0, 10.0), "gamma": (0.1,)},
    "dd": {"n_starts": 5},
    "em-dd": {"n_starts": 2},
    "em-proportions": {"n_centres": 20},
    "mica": {"n_centres": 20},
    "pl-aggd": {"max_rounds": 3},
    "proportion-svm": {"n_starts": 2},
}


def cheap(name, estimators):
    estimator = estimators[name](**CHEAP.get(name, {}))
    return estimator.set_params(cv=2) if hasattr(estimator, "cv") else estimator
