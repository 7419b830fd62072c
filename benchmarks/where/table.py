"""All models on all data sets as one table of ``bagwise.bench``, and the order in which its cells are dealt."""

import signal
from collections import deque
from contextlib import contextmanager

import numpy as np

from bagwise.bench.cells import Cell
from bagwise.bench.description import Measured, Model, Quick, Table
from bagwise.bench.measure import measure_cell
from bagwise.bench.protocols import Folds
from bagwise.metrics import bag_report, positive_proba
from bagwise.models import discover_estimators
from benchmarks.where.errors import standard_errors

METRICS = ("accuracy", "auc", "log_likelihood")
# Everything at its defaults, but for these: one search for the kernel, short chains, so that large sets can be run.
SHORTER = {
    "gpmil": {"n_restarts": 1},
    "group-kernel-machine": {"n_centres": 100, "n_chains": 2, "n_samples": 500, "n_burn_in": 500},
}
VARIANTS = {"gpmil": {"gpmil-softmax": {"approximation": "softmax"}}}

# Processor seconds per 1,000 instances, roughly, from one fold of MUSK 1: good enough for an order.
SECONDS = {
    "bag-gp": 14.0,
    "gpmil-softmax": 12.0,
    "group-kernel-machine": 10.0,
    "lm-vgpmil": 7.0,
    "miplgp": 8.0,
    "al-svm": 6.0,
    "alp-svm": 7.0,
    "aw-svm": 4.0,
    "attention-mil": 6.0,
    "dd": 4.0,
    "em-dd": 4.0,
    "mica": 4.0,
    "gpmil": 3.0,
}
USUAL_SECONDS = 0.5


def bag_answers(model, split):
    """Accuracy, AUC and log-likelihood of the bags held out, with their standard errors."""
    (part,) = split.parts
    positive = positive_proba(model.predict_proba(part.bags), model.classes_)
    report = bag_report(part.bag_truth, positive)
    found = {f"bag {name}": float(report[name]) for name in METRICS}
    errors = standard_errors(part.bag_truth, positive)
    return Measured({part.rows[0]: found | {f"bag {name} error": errors[name] for name in METRICS}}, {})


def models_for(sets):
    """Every model and baseline that takes labels of bags, at its defaults; components of text are not standardised."""
    text = tuple(source.name for source in sets if source.family == "text")
    others = tuple(source.name for source in sets if source.family != "text")
    found = []
    for name, settings, kind in contestants():
        scaled = {"standardize": False} if "standardize" in kind().get_params() else {}
        if others:
            found.append(Model(name, kind.__name__, settings, sets=others))
        if text:
            found.append(Model(name, kind.__name__, {**settings, **scaled}, sets=text))
    return tuple(found)


def contestants():
    """(name, settings, class) of all who take part."""
    for name, kind in discover_estimators().items():
        if "label" in kind.card.evidence:
            evidence = {"evidence": "label"} if "evidence" in kind().get_params() else {}
            settings = {**evidence, **SHORTER.get(name, {})}
            yield name, settings, kind
            for variant, changes in VARIANTS.get(name, {}).items():
                yield variant, {**settings, **changes}, kind


def where_table(sets, folds):
    """The table; its cells are one fold of one set for one model."""
    return Table(
        name="where",
        title="Where each model wins",
        source="bagwise.",
        protocol=f"Bags, {folds}-fold, stratified.",
        rule=Folds(folds),
        measure=bag_answers,
        sets=tuple(source.data for source in sets),
        models=models_for(sets),
        metrics=tuple(f"bag {name}" for name in METRICS),
        quick=Quick(()),
    )


# ---------------------------------------------------------------- the order


def dealt(cells, sizes):
    """Fold after fold, so that a run that is stopped has whole folds; within a fold those first that take longest.

    ``sizes`` are numbers of instances by data set.
    """
    return sorted(cells, key=lambda cell: (cell.repeat, cell.fold, -expected_seconds(cell, sizes[cell.data.name])))


def expected_seconds(cell: Cell, n_instances):
    return SECONDS.get(cell.model.name, USUAL_SECONDS) * (n_instances / 1000.0) ** 1.5


class InOrder:
    """Deals cells as they stand, whichever lane asks."""

    def __init__(self, cells):
        self._left = deque(cells)

    def take(self, lane):
        return self._left.popleft() if self._left else None


# ---------------------------------------------------------------- one cell within its time


class TooLongError(Exception):
    """A cell took more than its time."""


def measure_in_time(cell, folder, seconds):
    """The record of the cell; one that takes more processor time has failed. Compiled code is stopped late."""
    with alarm(seconds):
        return measure_cell(cell, folder)


@contextmanager
def alarm(seconds):
    """Raise TooLongError after so many seconds of processor time."""

    def ring(number, frame):
        raise TooLongError(f"took more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def sizes_of(folder, sets):
    """Number of instances by data set."""
    found = {}
    for source in sets:
        with np.load(folder / f"{source.name}.npz", allow_pickle=False) as arrays:
            found[source.name] = len(arrays["bag"])
    return found
