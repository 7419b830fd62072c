"""A table small enough to run in a test, and to be killed in the middle of."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bagwise.bench.cells import Choice
from bagwise.bench.description import DataSet, Model, Quick, Table, typed
from bagwise.bench.measure import binary_answers
from bagwise.bench.protocols import Known, label_split
from bagwise.bench.run import Plan, run
from bagwise.datasets import make_bags


@dataclass(frozen=True)
class TinyFolds:
    folds: int = 3

    def split(self, place):
        bags, y, instance_y = make_bags(18, 4, random_state=int(place.data.key))
        return label_split(Known(bags, y, instance_y.astype(float)), np.arange(18) % 3 == place.fold, place.data)


def slow_answers(model, split):
    time.sleep(1.0)  # long enough to be interrupted between two cells, however busy the machine
    return binary_answers(model, split)


def stumble(model, split):
    if model.get_params().get("n_inducing") == 5:
        raise ValueError("no answer today")
    return binary_answers(model, split)


def die_in_the_middle(cell, folder):
    if cell.fold == 1:
        os._exit(3)
    return {"key": cell.key, "error": None}


def tiny_table(measure=binary_answers, **changes):
    settings = {
        "name": "tiny",
        "title": "Tiny <waves> & bags",
        "source": "Nobody, nowhere.",
        "protocol": "Three folds.",
        "rule": TinyFolds(),
        "measure": measure,
        "sets": (DataSet("calm", key="0"), DataSet("rough", key="1")),
        "models": (
            Model("probit", "MILGPProbit", {"n_inducing": 10, "max_iter": 5}),
            Model("small", "MILGPProbit", {"n_inducing": 5, "max_iter": 5}),
            Model("SVM", "BagStatisticsSVM", {"C": (1.0,), "gamma": (0.01,), "cv": 2}),
        ),
        "metrics": ("instance auc", "bag accuracy"),
        "quick": Quick(("calm",), folds=2),
        "published": typed("Nobody, table 1", [("probit", "instance auc")], "calm 0.75±0.02\nmean 0.5"),
        "pooled": True,
        "comparisons": (("probit", "small"), ("probit", "SVM")),
        "remarks": ("a < b",),
    }
    return Table(**(settings | changes))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts in the background is born deaf to Ctrl-C
    run(Plan((tiny_table(slow_answers),), None, Path(sys.argv[1]), Choice(), jobs=int(sys.argv[2])))
