"""Bugs in baselines: calibration, solvers, and what each method does differently from the others."""

from tests.mutants.mutant import mutants_of

MUTANTS = [
    *mutants_of(
        "baselines/bag_statistics_svm.py",
        "baselines/test_bag_statistics_svm.py",
        ("the smallest value is the largest", "-largest(-rows, bags)", "largest(rows, bags)"),
        (
            "statistics of new bags are not scaled",
            "(bag_statistics(bags) - self.shift) / self.scale",
            "bag_statistics(bags)",
        ),
        ("the first of the lists is taken", "values[len(values) // 2]", "values[0]"),
    ),
    *mutants_of(
        "baselines/_base/calibration.py",
        "baselines/_base/test_calibration.py",
        ("scores of the training bags are calibrated", "learn(*chosen.some(train)).scores", "machine.scores"),
        ("targets are not smoothed", "(positives + 1.0) / (positives + 2.0), 1.0 /", "1.0, 0.0 /"),
        ("a misleading score turns round", "[(_LEAST_SLOPE, _MOST_SLOPE),", "[(-_MOST_SLOPE, _MOST_SLOPE),"),
        ("scores that are alike are divided by their rounding", "if spread < _ALIKE:", "if spread == 0.0:"),
        ("scores are not centred", 'centre = 0.0 if option == "slope" else float(unit.mean())', "centre = 0.0"),
        ("the base rate is one half", "(positives + 1.0) / (total - positives + 1.0)", "1.0"),
    ),
    *mutants_of(
        "baselines/_base/kernel_baseline.py",
        "baselines/test_nsk.py",
        ("the kernel of bags is a sum", "axis=1) / sizes / sizes[:, None]", "axis=1)"),
    ),
    *mutants_of(
        "baselines/_base/smo.py",
        "baselines/test_sb_mil.py",
        ("every margin is one", "slope = y * margin", "slope = y * 1.0"),
    ),
    *mutants_of(
        "baselines/mi_svm.py",
        "baselines/test_mi_svm.py",
        (
            "a positive bag may lose all its positives",
            "labels[first_largest(values, bags)[y == 1]] = True",
            "labels[first_largest(values, bags)[y == 1]] |= False",
        ),
    ),
    *mutants_of(
        "baselines/citation_knn.py",
        "baselines/test_citation_knn.py",
        ("citers do not vote", "(distance <= self.reach).astype(float)", "(distance < -1.0).astype(float)"),
    ),
    *mutants_of(
        "baselines/diverse_density.py",
        "baselines/test_diverse_density.py",
        ("the slope of a lost product", "-slope * p / ((1.0 - p) * hazard)", "-slope * p / hazard"),
    ),
    *mutants_of(
        "baselines/sure.py",
        "baselines/test_sure.py",
        ("the reward is twice as large", "+= 0.5 * sharpness", "+= sharpness"),
        ("a class that is no candidate is pushed", "np.where(table, outputs, -np.inf).argmax", "outputs.argmax"),
    ),
    *mutants_of(
        "baselines/conditional_mixture.py",
        "baselines/test_conditional_mixture.py",
        (
            "candidates are not looked at",
            "classes[None] * table[:, None, :]",
            "classes[None] * np.ones_like(table)[:, None, :]",
        ),
        ("nothing is added to a region", "belief.sum(axis=0) + _ADDED", "belief.sum(axis=0) + 1e-6"),
    ),
    *mutants_of(
        "baselines/proportion_svm.py",
        "baselines/test_proportion_svm.py",
        ("the smallest gains are made positive", "np.lexsort((-gain, bags.index))", "np.lexsort((gain, bags.index))"),
        ("one positive too few is tried", "bags.offsets[:-1][bags.index] + 1", "bags.offsets[:-1][bags.index]"),
        ("no bag may be without a positive", "np.where(penalty * fraction <= least, 0, first)", "first"),
        ("large bags count as much as small ones", "np.sum(bags.sizes * (xlogy", "np.sum((-1.0) * (xlogy"),
    ),
    *mutants_of(
        "baselines/mean_map.py",
        "baselines/test_mean_map.py",
        ("large bags weigh like small ones", "np.sqrt(sizes)[:, None]", "np.ones(len(sizes))[:, None]"),
    ),
    *mutants_of(
        "baselines/clpl.py",
        "baselines/test_clpl.py",
        ("the sum of the candidates has to be high", ".sum(axis=1) / sizes)", ".sum(axis=1))"),
    ),
    *mutants_of(
        "baselines/pl_knn.py",
        "baselines/test_pl_knn.py",
        (
            "all neighbours count alike",
            "1.0 - np.divide(near, total, out=np.zeros_like(near), where=total > 0)",
            "np.ones_like(near)",
        ),
    ),
    *mutants_of(
        "baselines/totals/group_totals.py",
        "baselines/totals/test_group_totals.py",
        (
            "nobody else may be positive",
            "np.clip((t - (1.0 - x)) / safe, 0.0, 1.0)",
            "np.clip(t - (1.0 - x), 0.0, 1.0)",
        ),
        ("a share above one is taken", "(share < 0.0) | (share > 1.0)", "(share < 0.0) | (share > 2.0)"),
    ),
    *mutants_of(
        "baselines/totals/king.py",
        "baselines/totals/test_king.py",
        (
            "the square is not divided by",
            "len(t) * np.log(chance_of_the_square(law))",
            "0.0 * np.log(chance_of_the_square(law))",
        ),
        ("the line is followed along the larger group", "few = x <= 0.5\n    lines", "few = x >= 0.5\n    lines"),
        ("rates do not depend on each other", "shared = x * s1**2 + (1.0 - x) * r * s1 * s2", "shared = x * s1**2"),
    ),
    *mutants_of(
        "baselines/totals/goodman.py",
        "baselines/totals/test_goodman.py baselines/totals/test_king.py",
        (
            "the interval has half its width",
            "stats.t.ppf(0.5 + 0.5 * level, self._rest)",
            "0.5 * stats.t.ppf(0.5 + 0.5 * level, self._rest)",
        ),
    ),
]
