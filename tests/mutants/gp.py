"""Bugs in features, kernels and posteriors."""

from tests.mutants.mutant import mutants_of

POSTERIOR = "gp/test_posterior.py"

MUTANTS = [
    *mutants_of(
        "gp/posterior.py",
        POSTERIOR,
        (
            "only the first chains are used",
            "return self.weights.flatten(1, 2).mT",
            "return self.weights[:, :1].flatten(1, 2).mT",
        ),
        ("the variance of chains forgets what differs between draws", "between.clamp(min=0.0) + within", "within"),
        (
            "all columns share the first factor",
            "self.mean.T[:, :, None] + spread[self.factor_of]",
            "self.mean.T[:, :, None] + spread[:1]",
        ),
        ("a draw of the chains is taken for certain", " + whiten(factor, rows.T).square().sum(0))", ")"),
        (
            "the mean of sparse draws is that of the draws",
            "values, means.mean((1, 2)).T)",
            "values, weights.mean((1, 2)).T)",
        ),
        (
            "the average probability sees one chain",
            "phi[some], kappa[some], k).mean((1, 2))",
            "phi[some], kappa[some], k)[:, 0].mean(1)",
        ),
    ),
    *mutants_of(
        "gp/leftovers.py",
        "gp/test_leftovers.py gp/test_leftovers_by_hand.py",
        (
            "columns before are not taken off",
            "covariance = covariance - column * column[own]",
            "covariance = covariance - 0.0 * column * column[own]",
        ),
        ("what is left is not lowered", "(rest - columns[-1].square()).clamp(min=0.0)", "rest"),
        (
            "features are not taken off the kernel",
            "alike - in_stretches(",
            "alike - 0.0 * in_stretches(",
        ),
    ),
    *mutants_of(
        "gp/latent.py",
        "bag_models/test_rule_answers.py",
        ("the exact mean counts the leftover twice", "(variance - rest).clamp(min=0.0)", "variance.clamp(min=0.0)"),
        (
            "a weighted sum forgets what its instances share",
            "left = left + self.segments.sum(P[:, None] * shared)",
            "left = left + 0.0 * self.segments.sum(P[:, None] * shared)",
        ),
        (
            "copies of an instance are all positive at once",
            "-torch.expm1(n[:, None] * negative)",
            "-torch.expm1(negative)",
        ),
    ),
    *mutants_of(
        "gp/moments.py",
        "gp/test_moments.py",
        ("blocks of rows forget how far their means are apart", " + np.square(delta) * (one.n * other.n / total)", ""),
        ("the mean of blocks is unweighted", "one.mean + delta * (other.n / total)", "one.mean + delta * 0.5"),
        (
            "a shifted column comes back without its shift",
            "course.mean[lost] = shift + unit * again.mean",
            "course.mean[lost] = unit * again.mean",
        ),
    ),
    *mutants_of(
        "gp/features.py",
        "gp/test_design.py",
        ("sizes beyond the fit go on growing", "np.log(sizes).clip(low, high)", "np.log(sizes)"),
        (
            "the constant explains a part of the kernel",
            "torch.linalg.vecdot(own, own)",
            "torch.linalg.vecdot(phi, phi)",
        ),
        ("products of sparse rows are centred by half", "- 2.0 * (rows @ (m / s**2))", "- (rows @ (m / s**2))"),
        (
            "learning sees features without jitter",
            "cholesky(kernels.gram(kernel, inducing), features.jitter,",
            "cholesky(kernels.gram(kernel, inducing), 0.0,",
        ),
    ),
    *mutants_of(
        "gp/ground.py",
        "gp/test_design.py",
        ("rows are scaled before they are shifted", ".sub_(shift).div_(scale)", ".div_(scale).sub_(shift)"),
    ),
    *mutants_of(
        "gp/kernels.py",
        "gp/test_design.py",
        (
            "the usual lengthscale is D",
            "scale = math.sqrt(n_features) if lengthscale is None",
            "scale = n_features if lengthscale is None",
        ),
        (
            "the Matérn kernel of pairs loses a term",
            "{0.5: 0.0, 1.5: 0.0, 2.5: 1.0 / 3.0}[nu]",
            "{0.5: 0.0, 1.5: 0.0, 2.5: 0.0}[nu]",
        ),
        ("relevance grows with the lengthscale", ".double().numpy().ravel() ** -2", ".double().numpy().ravel() ** 2"),
        ("the two parts of a sum have the whole variance each", "variance / 2.0)", "variance)"),
    ),
    *mutants_of(
        "gp/kernel_parameters.py",
        "gp/test_kernel_parameters.py",
        (
            "the lower bound is forgotten",
            "c.inverse_transform(new.exp() + c.lower_bound)",
            "c.inverse_transform(new.exp())",
        ),
        ("a linear kernel is expected as large as others", "VARIANCE_CENTRE / seen", "VARIANCE_CENTRE"),
        ("the chain rule is not finished", "gradient * above.detach() / slope", "gradient * above.detach()"),
    ),
    *mutants_of(
        "gp/feature_maps.py",
        "gp/test_design.py",
        ("every network has the same seed", "torch.manual_seed(seed)", "torch.manual_seed(0)"),
    ),
    *mutants_of(
        "gp/narrowing.py",
        "gp/test_narrowing.py",
        ("what lies outside the span is lost", "torch.cat([inside, rest[:, None]], dim=1)", "inside"),
        ("inducing inputs keep a rest of rounding", "torch.zeros_like(inside[:, :1])", "1e-6 + 0.0 * inside[:, :1]"),
        ("rows are narrowed for every kernel", " or not is_isotropic(kernel)", ""),
    ),
    *mutants_of(
        "gp/inducing.py",
        "gp/test_inducing.py",
        ("the least directions are taken for the leading ones", "vectors[:, ::-1][:, :kept]", "vectors[:, :kept]"),
        ("directions are made of rounding", "_LEAST_SQUARE * squares[-1]", "-1.0"),
    ),
    *mutants_of(
        "gp/capacity.py",
        "gp/test_capacity.py",
        ("leftovers do not blur what features tell", "1.0 / noise)", "torch.ones_like(noise))"),
        ("what single rows tell is forgotten", "0.5 * alone + ", ""),
    ),
]
