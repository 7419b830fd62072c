"""A small comparison of two models."""

import numpy as np

from bagwise.compare import compare_models

SVM = {"C": (1.0,), "gamma": (0.01,), "cv": 2}


NAMES = ["mil-gp-probit", "bag-statistics-svm"]


def compared(problem, **changes):
    bags, y, instance_y = problem
    settings = {"mil-gp-probit": {"n_inducing": 8, "max_iter": 5}, "bag-statistics-svm": SVM}
    arguments = {"folds": 3, "settings": settings, "instance_y": instance_y, "groups": np.arange(36) // 2}
    return compare_models(bags, y, NAMES, **(arguments | changes))
