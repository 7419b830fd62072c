"""Ten classes in bags: one digit among torn ones, and how well BagGP tells bags and instances.

``python -m benchmarks.digit_classes [SEED]`` deals scikit-learn's handwritten digits into bags of eight. Two images of
a bag show its digit; the others are torn: the upper half of one image above the lower half of one of another digit. 200
bags learn, each with its class; 100 others are judged. Training and new bags share no image. Printed are the accuracy
over new bags, and for every class average precision and recall at precision .9 of the instances.
"""

import sys
import time

import numpy as np
from sklearn.datasets import load_digits

from bagwise import BagGP
from bagwise.bench.measure import instance_class_measures
from bagwise.datasets import make_candidate_bags
from bagwise.metrics import instance_report

TORN = 10
_TRAIN, _NEW, _SIZE = 200, 100, 8


def torn_digits(X, y, n, random):
    """(n, 64) images whose halves are of two digits."""
    first, second = random.choice(len(X), (2, 4 * n))
    pairs = np.flatnonzero(y[first] != y[second])[:n]
    return np.concatenate([X[first[pairs], :32], X[second[pairs], 32:]], axis=1)


def dealt(half, n_bags, seed):
    """Bags from one half of the images."""
    random = np.random.default_rng(seed)
    digits = load_digits()
    X, y = digits.data[half::2], digits.target[half::2]
    torn = torn_digits(X, y, n_bags * _SIZE, random)
    rows, kinds = np.concatenate([X, torn]), np.concatenate([y, np.full(len(torn), TORN)])
    return make_candidate_bags(
        (rows, kinds), range(10), n_bags, _SIZE, n_false=0, positive_share=0.25, replace=True, random_state=seed
    )


def measured(seed):
    """The fitted model's answers about new bags."""
    train, new = dealt(0, _TRAIN, seed), dealt(1, _NEW, seed + 1)
    began = time.process_time()
    model = BagGP("class", random_state=seed).fit(train.bags, train.y)
    seconds = time.process_time() - began
    p = model.predict_instance_proba(new.bags)
    found = {"bag accuracy": float(np.mean(model.predict_proba(new.bags).argmax(1) == new.y)), "seconds": seconds}
    shown = (new.instance_y[:, None] == np.arange(10)).astype(float)
    return found | instance_class_measures(new.instance_y.astype(float), p), instance_report(
        shown, p[:, :10], [str(digit) for digit in range(10)]
    )


def main(arguments):
    """Print it."""
    found, by_class = measured(int(arguments[0]) if arguments else 0)
    for name, value in found.items():
        print(f"{name:34}{value:8.3f}")
    for name, row in by_class.items():
        print(f"{name:20} AP {row['average_precision']:.3f}  recall at .9 {row['recall_at_precision_90']:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
