"""Bugs in the arithmetic: special functions, segments, factorisations, links, laws of counts."""

from tests.mutants.mutant import mutants_of

MUTANTS = [
    *mutants_of(
        "numerics/none_or_some.py",
        "numerics/test_none_or_some.py",
        ("a tail that underflows is taken as it is", "bool((f.abs() <= farthest_side(f.dtype)).all())", "True"),
        ("every instance is taken from its logarithms", "bool((f.abs() <= farthest_side(f.dtype)).all())", "False"),
    ),
    *mutants_of(
        "numerics/special.py",
        "numerics/test_special.py",
        (
            "the hazard takes the other tail",
            "torch.special.erfcx(-x / math.sqrt(2.0))",
            "torch.special.erfcx(x / math.sqrt(2.0))",
        ),
        ("the series of log(1 - exp(-exp(t))) has the wrong sign", "t - 0.5 * torch.exp(t)", "t + 0.5 * torch.exp(t)"),
        ("the series of log(-log cdf) loses its second term", "tail + 0.5 * torch.exp(tail)", "tail"),
        ("the series of the Jaakkola bound has a wrong coefficient", "square / 96.0", "square / 48.0"),
        (
            "the fast log tail swaps its branches",
            "torch.where(above, torch.log(tail)",
            "torch.where(~above, torch.log(tail)",
        ),
        ("far quantiles take no Newton steps", "for _ in range(4):", "for _ in range(0):"),
    ),
    *mutants_of(
        "numerics/segments.py",
        "numerics/test_segments.py",
        (
            "the last of several largest rows is taken",
            'torch.where(largest, rows, len(x)).double(), "min"',
            'torch.where(largest, rows, -1).double(), "max"',
        ),
        (
            "a log sum of exponentials forgets its maximum",
            "torch.exp(x - self.spread(top)))) + top",
            "torch.exp(x - self.spread(top))))",
        ),
    ),
    *mutants_of(
        "numerics/linalg.py",
        "numerics/test_linalg.py",
        ("the jitter is absolute instead of relative", "(tried * size) * torch.eye", "tried * torch.eye"),
        ("log det A misses the factor 2", "return 2.0 * lower.diagonal", "return lower.diagonal"),
        (
            "draws are whitened by L instead of its transpose",
            "torch.linalg.solve_triangular(lower.mT, b, upper=True)",
            "torch.linalg.solve_triangular(lower, b, upper=False)",
        ),
        (
            "the corner of the Gram matrix is not filled in",
            "whole[half:, :half] = whole[:half, half:].T",
            "whole[half:, :half] = 0.0",
        ),
    ),
    *mutants_of(
        "numerics/gmres.py",
        "numerics/test_gmres.py",
        (
            "GMRES turns the wrong way",
            "[c * self._goal[k], -s * self._goal[k]]",
            "[c * self._goal[k], s * self._goal[k] + 1]",
        ),
        ("GMRES keeps the rest of its basis unscaled", "basis.append(new / rest)", "basis.append(new / length)"),
    ),
    *mutants_of(
        "numerics/links.py",
        "numerics/test_links.py",
        (
            "the probit average forgets the noise of the link",
            "mean / torch.sqrt(1.0 + variance)",
            "mean / torch.sqrt(variance)",
        ),
    ),
    *mutants_of(
        "numerics/links.py",
        "bag_models/test_soft_max.py",
        ("the bend of the probit link has the wrong sign inside", "return h * (h + a)", "return h * (h - a)"),
    ),
    *mutants_of(
        "numerics/links.py",
        "numerics/test_links.py",
        (
            "the probit score ignores the leftover variance",
            "centre / torch.sqrt(1.0 + kappa)[:, None]",
            "centre / torch.sqrt(1.0 + 0.0 * kappa)[:, None]",
        ),
        (
            "the logistic average uses too few nodes for wide laws",
            "math.ceil(10.0 * widest)",
            "math.ceil(0.1 * widest)",
        ),
        ("the logistic average treats wide laws as narrow ones", "wide = sd > 1.0", "wide = sd > 100.0"),
    ),
    *mutants_of(
        "numerics/blocks.py",
        "numerics/test_blocks.py",
        (
            "the last rows of a table are left out",
            "yield slice(start, min(start + step, total))",
            "yield slice(start, min(start + step, total - 1))",
        ),
    ),
    *mutants_of(
        "numerics/counting/programme.py",
        "numerics/counting/test_programme.py numerics/counting/test_saddle.py numerics/counting/test_potentials.py",
        (
            "the absorbing state forgets the negative side",
            "after[-1] = before[-1] + either[i]",
            "after[-1] = before[-1] + log_p[i]",
        ),
        (
            "mirrored buckets keep the sides of their instances",
            "piece.spread_rows(found.log_r, log_rbar if piece.bucket.mirrored else log_r)",
            "piece.spread_rows(found.log_r, log_r)",
        ),
        (
            "mirrored draws are not turned back",
            "piece.spread_rows(~drawn if piece.bucket.mirrored else drawn, labels)",
            "piece.spread_rows(drawn, labels)",
        ),
        (
            "the rank-one covariance has the excess upside down",
            "excess = variance[..., None] - total",
            "excess = total - variance[..., None]",
        ),
    ),
    *mutants_of(
        "numerics/counting/potentials.py",
        "numerics/counting/test_potentials.py numerics/counting/test_saddle.py numerics/counting/test_programme.py",
        (
            "tables are cut one count too early",
            'scatter_reduce(0, bag, count + 1, "amax")',
            'scatter_reduce(0, bag, count, "amax")',
        ),
        (
            "the table of a bag starts at the wrong entry",
            "first = int(self._offsets[bag]) + bag",
            "first = int(self._offsets[bag])",
        ),
    ),
    *mutants_of(
        "numerics/counting/saddle.py",
        "numerics/counting/test_saddle.py numerics/counting/test_potentials.py numerics/counting/test_programme.py",
        (
            "the contour forgets to take the tilt back",
            "log_z = _cumulant(instances, tilt) - tilt * top",
            "log_z = _cumulant(instances, tilt)",
        ),
        (
            "negative frequencies are forgotten",
            "torch.where(steps == 0, 1.0, 2.0) / period",
            "torch.where(steps == 0, 1.0, 1.0) / period",
        ),
        ("the band for draws never widens", "if reach >= len(log_psi) or bool(", "if reach >= 0 or bool("),
    ),
    *mutants_of(
        "numerics/counting/law.py",
        "numerics/counting/test_law.py",
        (
            "the law of large bags loses its lower tail",
            "inside = (count >= 0) & (count <= sizes[bag])",
            "inside = (count >= lowest + length // 2) & (count <= sizes[bag])",
        ),
        (
            "padding in the transform is certainly positive",
            "_side_by_side(p, 0.0), _side_by_side(q, 1.0)",
            "_side_by_side(p, 1.0), _side_by_side(q, 0.0)",
        ),
        (
            "absent instances are a coin",
            "masked_fill_(absent[..., None], -torch.inf)",
            "masked_fill_(absent[..., None], 0.0)",
        ),
    ),
]
