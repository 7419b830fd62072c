"""Small models."""

from bagwise import BagGP, MILGPProbit


def probit(**settings):
    return MILGPProbit(**({"n_inducing": 6, "max_iter": 5, "bias": 2.0, "random_state": 0} | settings))


def bag_gp(**settings):
    return BagGP(**({"n_inducing": 6, "learn": False, "size_effect": False, "random_state": 0} | settings))
