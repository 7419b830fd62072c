"""All mutants, package by package."""

from tests.mutants import bag_models, evidence, gp, inference, numerics

MUTANTS = [
    *numerics.MUTANTS,
    *evidence.MUTANTS,
    *gp.MUTANTS,
    *bag_models.MUTANTS,
    *inference.MUTANTS,
]
