"""Inverse calibration against an ordinary regression."""

import numpy as np
from scipy.special import expit, logit
from sklearn.svm import SVR
from tests.baselines.fraction_bags import groups

from bagwise.baselines import InvCal


def test_inverse_calibration_is_a_regression_of_log_odds_on_mean_features():
    bags, fraction, _ = groups(12, 5)
    model = InvCal("linear", C=1.0, clip=0.05, standardize=False).fit(bags, fraction)
    means = np.array([X.mean(axis=0) for _, X in bags])
    reference = SVR(kernel="linear", C=1.0).fit(means, logit(np.clip(fraction, 0.05, 0.95)))
    p = expit(reference.predict(bags.X))
    assert np.allclose(model.predict_instance_proba(bags)[:, 1], p, atol=1e-3)
