"""Why MIPLGP calls few instances by a class, and what BagGP does with the same bags.

``python -m benchmarks.candidate_instances [SEED]`` deals handwritten digits into bags of twenty with one false
candidate, a share of the images being of the bag's class, and prints for every model: the accuracy over new bags; the
share of the instances of a class that are called by it (recall of the most probable class); their mean average
precision, which needs no threshold; and how many instances of a class a bag is expected to hold (the sum of their
probabilities), beside the true number. MIPLGP keeps its kernel, BagGP learns its own: as given, with variance 1, it
tells nothing apart.
"""

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from bagwise import MIPLGP, BagGP
from bagwise.datasets import make_candidate_bags

_SPARSE: dict[str, Any] = {"solver": "sparse", "n_inducing": 80, "n_rounds": 10, "learn": False, "random_state": 0}
_MODELS: dict[str, Any] = {
    "MIPLGP dirichlet, to the letter": MIPLGP("dirichlet", at_least_one=False, **_SPARSE),
    "MIPLGP dirichlet": MIPLGP("dirichlet", **_SPARSE),
    "MIPLGP consistent": MIPLGP("consistent", **_SPARSE),
    "MIPLGP uniform": MIPLGP("uniform", **_SPARSE),
    "BagGP": BagGP("candidates", n_inducing=80, random_state=0),
}


def compare(share: float, seed: int) -> None:
    """One table for bags of which a share of the instances shows the class."""
    made = make_candidate_bags(n_bags=80, bag_size=20, positive_share=share, replace=True, random_state=seed)
    train, new = made.bags[:50], made.bags[50:]
    truth, q = made.instance_y[train.n_instances :], made.candidates.shape[1]
    held = (truth < q).sum() / len(new)
    print(f"\n{share:.0%} of the images show the class: {held:.1f} in a bag of 20")
    print(f"{'':34}bags  recall  precision  expected in a bag")
    for name, model in _MODELS.items():
        model.fit(train, made.candidates[:50])
        p = model.predict_instance_proba(new)
        ranked = np.mean([average_precision_score(truth == k, p[:, k]) for k in range(q)])
        found = np.mean((p.argmax(1) == truth)[truth < q])
        accuracy, expected = model.score(new, made.y[50:]), p[:, :q].sum() / len(new)
        print(f"{name:32}{accuracy:6.2f}{found:8.2f}{ranked:11.2f}{expected:19.1f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for positive in (0.1, 0.3):
        compare(positive, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
