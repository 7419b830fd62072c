"""Standard errors of the measures of one test fold: how far they would vary with other bags held out."""

import numpy as np


def standard_errors(truth, positive):
    """By measure, from the labels of the bags held out (0 or 1) and their probabilities of the positive class.

    NaN where it is not defined: one bag of a class for the AUC, a log-likelihood of minus infinity.
    """
    labels = np.asarray(truth) == 1
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(labels, positive, 1.0 - positive))
    return {
        "accuracy": of_mean((positive > 0.5) == labels),
        "auc": of_auc(positive[labels], positive[~labels]),
        "log_likelihood": of_mean(logs) if np.isfinite(logs).all() else np.nan,
    }


def of_mean(values):
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def of_auc(above, below):
    """DeLong, DeLong & Clarke-Pearson (Biometrics 44, 1988): what positive bags and negative ones add to the variance.

    The AUC is the mean over all pairs of a positive and a negative bag; what a bag says is the mean over its pairs.
    """
    pairs = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    return float(np.hypot(of_mean(pairs.mean(1)), of_mean(pairs.mean(0)))) if pairs.size else np.nan
