"""Small chains on a small problem."""

from bagwise import MILGPProbit
from bagwise.datasets import make_bags

SMALL = {"inference": "gibbs", "n_inducing": 8, "n_samples": 30, "n_burn_in": 10, "n_chains": 2, "random_state": 0}


def problem(n_bags=20, seed=0):
    bags, y, instance_y = make_bags(n_bags, (1, 6), random_state=seed)
    return bags, y, instance_y


def small(**changes):
    return MILGPProbit(**SMALL | changes)
