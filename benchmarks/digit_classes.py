"""Ten classes in bags: one digit among images that are none, and how well BagGP tells bags and instances.

``python -m benchmarks.digit_classes [SEED] [KIND,...]`` deals scikit-learn's handwritten digits into bags of eight. Two
images of a bag show its digit; the others are none, of one of two kinds:

swapped   the lower half of an image above its upper half
torn      the upper half of one image above the lower half of one of another digit; some of these look like a digit

200 bags learn, each with its class; 100 others are judged. Training and new bags share no image. Printed are the
accuracy over new bags, the mean log-likelihood of their classes, and the means over classes of average precision and
recall at precision .9 of the instances: every instance judged by itself, and within its bag, which has one of the ten
classes and no other (``given``). Beside them stand BagGP with a kernel that is given and rougher than the one it
learns, and what a support vector machine reaches (one class against the rest) that is told the class of every single
training instance: nobody who sees bags only should expect more. (Its log-likelihood is of scores that are no
probabilities.)
"""

import sys
import time

import numpy as np
from gpytorch.kernels import RBFKernel, ScaleKernel
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from bagwise import BagGP
from bagwise.bench.measure import instance_class_measures
from bagwise.datasets import make_candidate_bags

NONE = 10
_TRAIN, _NEW, _SIZE = 200, 100, 8
_SMOOTHNESS, _COST = 0.02, 10.0  # of the machine that sees all instances: the best of a few on torn images


def torn_digits(X, y, n, random):
    """(n, 64) images whose halves are of two digits."""
    first, second = random.choice(len(X), (2, 4 * n))
    pairs = np.flatnonzero(y[first] != y[second])[:n]
    return np.concatenate([X[first[pairs], :32], X[second[pairs], 32:]], axis=1)


def swapped_digits(X, y, n, random):
    """(n, 64) images whose halves have changed places."""
    chosen = X[random.choice(len(X), n)]
    return np.concatenate([chosen[:, 32:], chosen[:, :32]], axis=1)


KINDS = {"swapped": swapped_digits, "torn": torn_digits}


def dealt(kind, half, n_bags, seed):
    """Bags from one half of the images, all pixels in one unit."""
    random = np.random.default_rng(seed)
    digits = load_digits()
    pixels = digits.data / np.sqrt(digits.data.var(axis=0).mean())
    X, y = pixels[half::2], digits.target[half::2]
    others = KINDS[kind](X, y, n_bags * _SIZE, random)
    rows, kinds = np.concatenate([X, others]), np.concatenate([y, np.full(len(others), NONE)])
    return make_candidate_bags(
        (rows, kinds), range(10), n_bags, _SIZE, n_false=0, positive_share=0.25, replace=True, random_state=seed
    )


def by_bags(train, new, seed, **settings):
    """P(class) of new bags and of their instances, alone and within their bags, learned from the classes of bags."""
    model = BagGP("class", standardize=False, random_state=seed, **settings).fit(train.bags, train.y)
    within = model.predict_instance_proba(new.bags, given=np.ones((len(new.bags), NONE)))
    return model.predict_proba(new.bags), {"": model.predict_instance_proba(new.bags), ", within bags": within}


def by_rough_kernel(train, new, seed):
    """The same with a kernel of lengthscale 8 and variance 40, which is not learned."""
    kernel = ScaleKernel(RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = 40.0, 8.0
    return by_bags(train, new, seed, kernel=kernel, learn=False)


def by_instances(train, new, seed):
    """Scores of new bags and of their instances, between 0 and 1, learned from the classes of all instances."""
    machines = (SVC(C=_COST, gamma=_SMOOTHNESS).fit(train.bags.X, train.instance_y == k) for k in range(NONE))
    scores = np.stack([machine.decision_function(new.bags.X) for machine in machines], axis=1)
    instances = 1.0 / (1.0 + np.exp(-scores))
    return np.maximum.reduceat(instances, new.bags.offsets[:-1]), {"": instances}


LEARNERS = {"BagGP": by_bags, "rough kernel": by_rough_kernel, "all instances told": by_instances}


def measured(kind, learn, seed):
    """Accuracy over new bags, and how well their instances are ranked, by way of judging these."""
    train, new = dealt(kind, 0, _TRAIN, seed), dealt(kind, 1, _NEW, seed + 1)
    began = time.process_time()
    bags, answers = learn(train, new, seed)
    shares = bags / bags.sum(1, keepdims=True)
    likelihood = float(np.mean(np.log(shares[np.arange(len(bags)), new.y])))
    right = float(np.mean(bags.argmax(1) == new.y))
    found = {"bags": right, "likelihood": likelihood, "seconds": time.process_time() - began}
    truth = new.instance_y.astype(float)
    return {how: found | instance_class_measures(truth, instances) for how, instances in answers.items()}


def main(arguments):
    """Print it."""
    seed = int(arguments[0]) if arguments else 0
    print(f"{'':37}bags  log-likelihood  average precision  recall at .9  seconds")
    for kind in arguments[1].split(",") if len(arguments) > 1 else KINDS:
        for name, learn in LEARNERS.items():
            for how, found in measured(kind, learn, seed).items():
                ranked = f"{found['instance average_precision']:19.3f}{found['instance recall_at_precision_90']:14.3f}"
                bags = f"{found['bags']:6.2f}{found['likelihood']:16.3f}"
                print(f"{kind + ', ' + name + how:35}{bags}{ranked}{found['seconds']:9.0f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
