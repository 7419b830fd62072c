"""Texts about parameters and fitted attributes that several baselines share, and the decorator that puts them in."""

from typing import TypeVar

from bagwise.models._base.documented import documented

_Class = TypeVar("_Class", bound=type)

PARAMETERS = """
kernel : {"rbf", "linear"}
    Which rows are alike: "rbf" (Gaussian) or "linear" (inner products). Use "linear" where there are more features than
    bags.
C : float
    Penalty of mistakes against a wide margin. Increase it if bags that were learned from are judged wrongly, decrease
    it if new ones are; compare several by cross-validation.
gamma : float or None
    Inverse squared width of the Gaussian kernel, ``exp(-gamma |x - z|²)``, in units of standardised features. None
    takes 1 / D for D features. Increase it where the answers are too smooth.
standardize : bool
    Shift and scale every feature to mean 0 and variance 1, as measured in ``fit`` and stored with the model. Use False
    if the features have a common unit and their sizes matter.
calibration : {"sigmoid", "slope"}
    How scores become probabilities, on bags held out of the training bags: "sigmoid" fits slope and intercept, which
    may move the decision away from the method's own; "slope" fits the slope only and keeps the method's own decision.
    Use "slope" to compare decisions with published figures.
cv : int
    Number of folds in which training bags are held out for the calibration; fewer are made where a class has fewer
    bags. The method is fitted so many times more. Increase it for small data, decrease it to save time.
n_centres : int
    Number of instances, drawn at random, by which the Gaussian kernel describes an instance (a reduced kernel); not
    used with the linear kernel. Increase it until the answers stop changing; it costs time.
n_starts : int
    Number of instances of positive bags, drawn at random, from which a maximum is looked for. Increase it if fits with
    other random numbers differ; it costs time.
max_rounds : int
    Most rounds of the alternation; of methods with a temperature, rounds at each. Increase it if ``fit`` warns that it
    did not settle; it costs time.
temperature : float
    Temperature at which the annealing starts, in units of ``C``; it ends at 0.05. Increase it to depend less on the
    start, where every instance of a positive bag is positive. From 10 on, beliefs are all near one half at first, and
    the machine may forget the positives for good.
cooling : float
    Factor by which the temperature falls, above 1. Decrease it towards 1 for a slower, safer annealing.
summary : {"mean", "maxmin"}
    How one row is made of a bag: the mean of its instances, or their largest and smallest values side by side. Compare
    both; "maxmin" keeps single instances that stand out.
random_state : int, RandomState instance or None
    Where random numbers come from: those of the folds and of starting values. Give a number to get the same model
    again.
"""

ATTRIBUTES = """
classes_ : ndarray of shape (2,), (K, 2) or (q,)
    The class values; of two, the second is called positive. One row per label column where there are several.
label_names_ : tuple of str or None
    Names of the label columns where ``y`` has several, else None.
n_features_in_ : int
    Number of features in ``fit``.
feature_names_in_ : ndarray of str
    Names of the features in ``fit``; only there if they had names.
shift_ : ndarray of shape (D,)
    What is subtracted from every feature: its mean, or 0 without standardising.
scale_ : ndarray of shape (D,)
    What every feature is divided by: its standard deviation, or 1 without standardising.
instance_classes_ : ndarray of shape (q + 1,)
    The classes and, last, what an instance of none of them is called.
machines_ : tuple of Machine
    What was learned, one machine per label column. Where scores are calibrated, ``machines_[0].machine`` has the
    arrays of the method, ``slope``, ``intercept`` and ``limit`` belong to the calibration.
"""


def documented_baseline(cls: _Class) -> _Class:
    """Complete the docstring of a baseline."""
    return documented(cls, PARAMETERS, ATTRIBUTES)
