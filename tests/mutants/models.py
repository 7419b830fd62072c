"""Bugs in answers and estimators: points, counts, classes, settings, files of models."""

from tests.mutants.mutant import mutants_of

PARTS = "predict/test_parts.py"
ESTIMATOR = (
    "models/_base/test_estimator.py models/_base/test_label_answers.py models/_base/test_count_answers.py "
    "models/_base/test_learned_kernel.py"
)
SAMPLING = (
    "models/_base/test_chain_answers.py ::test_diagnostics_hold_the_promised_quantities "
    "::test_to_arviz_has_label_columns_last "
    "models/_base/test_chains.py ::test_a_chain_that_has_not_converged_says_so_where_fit_was_called "
    "::test_interruption_keeps_the_draws_and_warm_start_goes_on"
)

MUTANTS = [
    *mutants_of(
        "predict/counts.py",
        PARTS,
        (
            "upper limits of a later part are those of the first bags",
            "lowest[part], highest[part]))",
            "lowest[part], highest))",
        ),
        (
            "lower limits of a later part are those of the first bags",
            "lowest[part], highest[part]))",
            "lowest, highest[part]))",
        ),
        ("the upper end of an interval is its lower end", "return ends[0], ends[1]", "return ends[0], ends[0]"),
        (
            "the law does not agree with the probability of the bag",
            "factor = np.divide(some, counted, out=np.ones_like(some), where=counted > 0)",
            "factor = np.ones_like(some)",
        ),
        ("intervals are one count too narrow", "below < quantile - _SAME_CHANCE", "below < quantile - 0.05"),
    ),
    *mutants_of(
        "predict/points.py",
        "predict/test_points.py",
        (
            "the last weights take the numbers of the noise",
            "posterior.draws(normals[:-NOISE]), normals[-NOISE:]",
            "posterior.draws(normals[NOISE:]), normals[-NOISE:]",
        ),
        (
            "all models have the same points",
            "scramble=True, rng=np.random.default_rng(seed))",
            "scramble=True, rng=np.random.default_rng(0))",
        ),
        (
            "chains share their noise with the first model",
            "np.random.default_rng([seed, 2])",
            "np.random.default_rng([0, 2])",
        ),
    ),
    *mutants_of(
        "predict/classes.py",
        "predict/test_classes.py",
        ("variances are taken for deviations", "spread = variance.sqrt()", "spread = variance"),
        (
            "the softmax is over the points",
            "torch.softmax(draws, dim=1).mean(2)",
            "torch.softmax(draws, dim=2).mean(2)",
        ),
    ),
    *mutants_of(
        "models/_base/label_answers.py",
        "models/_base/test_label_answers.py",
        (
            "the columns of probabilities are swapped",
            "np.column_stack([1.0 - positive, positive])",
            "np.column_stack([positive, 1.0 - positive])",
        ),
        (
            "several labels are positive from one third on",
            "return (probability > 0.5).astype(int)",
            "return (probability > 0.33).astype(int)",
        ),
        ("weights of samples are ignored", "weights=weights[seen]))", "weights=None))"),
        (
            "bags without a label count as mistakes",
            "seen = ~pd.isna(truth)\n",
            "seen = np.ones(truth.shape, dtype=bool)\n",
        ),
    ),
    *mutants_of(
        "models/_base/estimator.py",
        "models/_base/test_estimator.py",
        (
            "the mean of the constant is in units of the prior",
            "bias * self.posterior_.mean[-1].cpu().numpy() if bias > 0",
            "self.posterior_.mean[-1].cpu().numpy() if bias > 0",
        ),
        (
            "bags much larger than any seen pass in silence",
            "if beyond.any() and (sized or self.rule_.grows_with_size):",
            "if beyond.any() and sized:",
        ),
        (
            "the seed of answers is always the same",
            "self.seed_ = int(random.randint(2**31 - 1))\n        return features",
            "self.seed_ = 0\n        return features",
        ),
    ),
    *mutants_of(
        "models/_base/state.py",
        "models/_base/test_state.py ::test_everything_fitted_comes_back",
        (
            "the smallest and the largest size are swapped",
            "model.sizes_seen_ = int(smallest), int(largest)",
            "model.sizes_seen_ = int(largest), int(smallest)",
        ),
        ("the seed is not kept", 'model.seed_ = int(fitted["seed"])', "model.seed_ = 1"),
        ("the constant is not kept", 'bias=float(description["bias"])', "bias=float(bool(description['bias']))"),
    ),
    *mutants_of(
        "models/_base/count_answers.py",
        "models/_base/test_count_answers.py",
        (
            "an interval is given where an expectation was asked for",
            "type(found)(*(part[:, 0] for part in found))",
            "type(found)(*(found.lower[:, 0] for part in found))",
        ),
        (
            "bags that say neither count as negative",
            "truth[~np.isnan(holds)] = np.ravel(self.classes_)[:2][holds[~np.isnan(holds)].astype(int)]",
            "truth[:] = np.ravel(self.classes_)[:2][(holds == 1).astype(int)]",
        ),
    ),
    *mutants_of(
        "models/_base/chains.py",
        SAMPLING,
        (
            "an interrupted run counts as converged",
            "converged=chains.converged and not trace.interrupted",
            "converged=True",
        ),
        (
            "the watched rows are not those that their names say",
            "some.offsets[place] + chosen - bags.offsets[bags.index[chosen]]",
            "some.offsets[place] + 0 * chosen",
        ),
    ),
    *mutants_of(
        "models/_base/chain_answers.py",
        SAMPLING,
        (
            "label columns of ArviZ are chains",
            "v = np.moveaxis(weights, 0, -1) if several",
            "v = np.moveaxis(weights, 1, -1) if several",
        ),
    ),
    *mutants_of(
        "models/_base/learned_kernel.py",
        "models/_base/test_learned_kernel.py",
        (
            "a kernel that is not learned has the variance of one that is",
            "VARIANCE_CENTRE if estimator.learn else 1.0",
            "VARIANCE_CENTRE",
        ),
    ),
    *mutants_of(
        "models/bag_gp.py",
        ESTIMATOR,
        (
            "the noise of labels is forgotten",
            "CountReading(self.evidence, self.confidence, self.label_noise,",
            "CountReading(self.evidence, self.confidence, 0.0,",
        ),
        (
            "the confidence is forgotten",
            "CountReading(self.evidence, self.confidence,",
            "CountReading(self.evidence, 1000.0,",
        ),
        ("the spread of the size effect is its variance", "float(variance[0] ** 0.5)", "float(variance[0])"),
        (
            "the effect of size is read off the next column",
            "place = self.features_.n_inducing\n",
            "place = self.features_.n_inducing - 1\n",
        ),
    ),
    *mutants_of(
        "models/mil_gp_probit.py",
        ESTIMATOR,
        ("the noise is always the published one", 'integrated=self.noise == "exact"', "integrated=False"),
    ),
    *mutants_of(
        "models/gpmil.py",
        "models/test_witnesses.py",
        (
            "the witness is the smallest weight",
            "np.lexsort((-values[: bags.n_instances], bags.index))",
            "np.lexsort((values[: bags.n_instances], bags.index))",
        ),
        (
            "witnesses of the last temperature are judged as at the first",
            "found.sharpness if",
            "0.1 if",
        ),
    ),
    *mutants_of(
        "models/vgpmil.py",
        (
            "models/test_vgpmil.py ::test_falls_of_the_bound_are_counted_and_rises_are_not "
            "::test_a_certain_label_that_contradicts_a_known_instance_is_refused_and_a_doubtful_one_is_not"
        ),
        ("falls of the bound are taken for rises", "(np.diff(trace.values) < -_FALL", "(np.diff(trace.values) > _FALL"),
        (
            "the noise is that of the odds of being right",
            "noise = 1.0 / (1.0 + self.H)",
            "noise = 1.0 - 1.0 / (1.0 + self.H)",
        ),
    ),
    *mutants_of(
        "models/_base/class_fit.py",
        "models/_base/test_class_fit.py ::test_kernel_of_the_guesses_that_predict_sets_of_bags_left_out_best_is_kept "
        "::test_kernel_that_bags_left_out_speak_against_is_not_kept",
        (
            "what bags left out say against a kernel is not heard",
            "if one is plain or not _refuted(one, plain))",
            "if one)",
        ),
        (
            "another kind of kernel must be spoken against clearly",
            "_CLEARLY if one.first is plain.first else 0.0",
            "_CLEARLY",
        ),
        ("the kernel of the least worth is kept", "key=_worth, reverse=True)", "key=_worth)"),
    ),
    *mutants_of(
        "models/_base/class_answers.py",
        "models/_base/test_class_answers.py",
        (
            "bags that say nothing count as misses",
            "np.average(hits[observed], weights=weights[observed])",
            "np.average(hits, weights=weights)",
        ),
    ),
    *mutants_of(
        "models/miplgp.py",
        (
            "models/test_miplgp.py ::test_classes_of_bags_and_instances_are_found "
            "::test_bag_classes_of_the_consistent_model_are_its_posterior "
            "::test_without_augmentation_no_instance_is_none_of_them evidence/test_candidates.py"
        ),
        (
            "the consistent model is judged by its strongest instance",
            'OneClassInBag if self.disambiguation == "consistent" else StrongestInstance\n        return kind(bool',
            'StrongestInstance if self.disambiguation == "consistent" else StrongestInstance\n        return kind(bool',
        ),
    ),
    *mutants_of(
        "models/group_kernel_machine.py",
        (
            "models/test_group_kernel_machine.py ::test_what_is_active_can_be_read "
            "::test_features_are_the_columns_of_the_kernel ::test_centres_are_all_instances_while_that_is_cheap"
        ),
        (
            "centres are in units of the features",
            "features.inducing.double() * features.scale + features.shift",
            "features.inducing.double() * features.scale",
        ),
        (
            "centres count as active where they are not",
            "(self.posterior_.weights != 0).double()",
            "(self.posterior_.weights == 0).double()",
        ),
    ),
]
