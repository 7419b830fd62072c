"""All mutants, package by package."""

from tests.mutants import bag_models, baselines, data, evidence, gp, inference, models, numerics, output, scale

MUTANTS = [
    *numerics.MUTANTS,
    *evidence.MUTANTS,
    *gp.MUTANTS,
    *bag_models.MUTANTS,
    *inference.MUTANTS,
    *models.MUTANTS,
    *baselines.MUTANTS,
    *data.MUTANTS,
    *output.MUTANTS,
    *scale.MUTANTS,
]
