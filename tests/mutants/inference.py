"""Bugs in finding a posterior: bounds, messages, modes, chains, candidates, the search for a kernel."""

from tests.mutants.mutant import mutants_of

MEAN_FIELD = (
    "inference/test_mean_field.py ::test_collapsed_bound_equals_the_bound_assembled_term_by_term "
    "::test_gradient_equals_finite_differences ::test_a_bag_without_a_label_changes_nothing "
    "::test_how_bags_are_cut_into_chunks_does_not_matter"
)
LOGISTIC = (
    "inference/test_logistic_bound.py ::test_every_iteration_equals_a_fit_in_the_papers_notation "
    "::test_bags_of_one_with_certain_labels_are_logistic_gp_classification"
)
GIBBS = (
    "inference/chains/test_gibbs.py ::test_moments_agree_with_a_grid ::test_known_instances_and_uninformed_ones "
    "::test_a_positive_bag_is_drawn_from_its_exact_law "
    "::test_a_negative_bag_is_below_zero_and_a_silent_one_is_not_used "
    "::test_chunking_does_not_matter ::test_the_seed_decides_and_a_sweep_can_be_repeated"
)
SAMPLING = (
    "models/_base/test_chains.py ::test_warm_start_adds_samples "
    "::test_only_n_samples_over_the_limit_are_thinned "
    "::test_a_checkpoint_of_another_run_is_refused ::test_warm_start_refuses_other_data "
    "models/_base/test_chain_answers.py ::test_diagnostics_hold_the_promised_quantities "
    "::test_a_loaded_sampler_has_its_chains"
)
MACHINE = (
    "inference/chains/test_kernel_machine.py ::test_weights_are_drawn_from_their_conditional "
    "::test_the_scale_has_one_degree_of_freedom_for_every_weight ::test_jitter_is_relative_to_the_mean_diagonal "
    "::test_z_follows_the_evidence_by_either_update "
    "::test_the_random_walk_takes_plain_labels_too ::test_how_bags_are_cut_does_not_matter"
)
SOLVERS = "inference/candidates/test_sparse.py equivalence/test_candidate_solvers.py"

MUTANTS = [
    *mutants_of(
        "inference/mean_field.py",
        MEAN_FIELD,
        ("the bound forgets the leftover variance", '-0.5 * sums["kappa"] - 0.5 * logdet', "-0.5 * logdet"),
        ("the bound forgets the prior of the mean", " - 0.5 * mean.square().sum(0)", ""),
        (
            "bags that state nothing are in the Gram matrix",
            "rows = design.phi if everyone else design.phi[seen]",
            "rows = design.phi",
        ),
    ),
    *mutants_of(
        "inference/lbfgs.py",
        "inference/test_lbfgs.py",
        (
            "the gradient turns the wrong way",
            "x - self.x, self.gradient - gradient",
            "x - self.x, gradient - self.gradient",
        ),
        ("one column's step is halved for all", "torch.where(enough, length, 0.5 * length)", "0.5 * length"),
    ),
    *mutants_of(
        "inference/loop.py",
        "inference/test_loop.py",
        ("one iteration too many", "len(reports) < max_iter", "len(reports) <= max_iter"),
        (
            "an interrupted loop says that it converged",
            "reports[-1].residual <= tol, interrupted)",
            "True, interrupted)",
        ),
    ),
    *mutants_of(
        "inference/belief.py",
        LOGISTIC,
        ("the belief forgets its prior", "cholesky(eye + part, what=", "cholesky(1e-6 * eye + part, what="),
    ),
    *mutants_of(
        "inference/logistic_bound.py",
        LOGISTIC,
        (
            "the leftover variance is not part of the square",
            "shared.belief.spread(phi).double() + kappa",
            "shared.belief.spread(phi).double()",
        ),
        ("the margin enters the odds by half", "4.0 * C * C * margin * V", "2.0 * C * C * margin * V"),
        ("the bound forgets what is left over", "(constant - 0.5 * weight * kappa)", "constant"),
        (
            "the weight of the bound is half of what it is",
            "Quadratic(2.0 * tangent.curvature,",
            "Quadratic(tangent.curvature,",
        ),
    ),
    *mutants_of(
        "bag_models/counts.py",
        "inference/test_bag_propagation_by_hand.py",
        ("the second derivative misses a term", "-(z * g + g.square()) / s.square()", "-g.square() / s.square()"),
    ),
    *mutants_of(
        "inference/expectation_propagation.py",
        "inference/test_bag_propagation_by_hand.py",
        ("the cavity keeps its own message", "(centre - nu / d * weight) / safe", "centre / safe"),
        (
            "the evidence misses a term of single instances",
            "own = -0.5 * torch.log(d) + kappa[:, None] * nu.square() / (2.0 * d)",
            "own = -0.5 * torch.log(d)",
        ),
        (
            "the evidence misses half the determinant",
            "bulk = -0.5 * logdet(self._factors)",
            "bulk = -logdet(self._factors)",
        ),
    ),
    *mutants_of(
        "inference/stride.py",
        "inference/test_stride.py",
        ("steps never grow", "self.length = min(_LONGER * self.length, self._longest)", "pass"),
        ("steps that turn back stay long", "self.length = max(_SHORTER * self.length, _SHORTEST)", "pass"),
        ("what goes round may speed up again", "self._longest = self.length = max", "self.length = max"),
    ),
    *mutants_of(
        "inference/bag_curves.py",
        "inference/test_bag_curves.py",
        (
            "places are taken to be one apart",
            "logs = self.logs + normal + torch.log(distance)",
            "logs = self.logs + normal",
        ),
        ("the spread is around the cavity", "(self.places - centre).square()", "(self.places - mean).square()"),
        ("draws keep their own u", "scaled @ draws - b * spread(rows @ draws - centre)", "scaled @ draws"),
        ("leftovers do not shrink rows", "design.phi * torch.rsqrt(1.0 + design.kappa)[:, None]", "design.phi"),
        ("a wrong label is as likely as twice the noise", "math.log1p(-2.0 * noise)", "math.log1p(-noise)"),
        ("bags without a say have a slope", "torch.where(silent, 0.0, (centre - mean) / variance)", "(centre - mean)"),
    ),
    *mutants_of(
        "inference/bag_propagation.py",
        "inference/test_bag_propagation_by_hand.py",
        ("the linearised bag forgets where it was looked at", "scale * (expected - rows @ centre)", "scale * expected"),
        ("what is not linear is not counted as noise", "torch.rsqrt(1.0 + noise)", "torch.rsqrt(1.0 + 0.0 * noise)"),
        (
            "the derivative of the score has the wrong sign",
            "return -gradient * torch.exp(S - log_pdf(g))",
            "return gradient * torch.exp(S - log_pdf(g))",
        ),
        (
            "unlabelled bags keep their rows",
            "rows = design.segments.spread(chosen)",
            "rows = design.segments.spread(chosen.flip(0))",
        ),
    ),
    *mutants_of(
        "inference/engines.py",
        "inference/test_engines.py",
        (
            "the size of bags is averaged over bags",
            "np.square(sizes, dtype=np.float64).sum() / sizes.sum()",
            "sizes.mean()",
        ),
        (
            "counts that are pinned down go to messages",
            'has_light_bags():\n        return "vi"',
            'has_light_bags():\n        return "ep"',
        ),
        (
            "unlabelled bags decide about the inference",
            "size_of_own_bag(bags.sizes[labelled])",
            "size_of_own_bag(bags.sizes)",
        ),
        ("an impossible evidence is believed", "if not plausible:", "if plausible is None:"),
    ),
    *mutants_of(
        "inference/laplace/mode.py",
        (
            "inference/laplace/test_mode.py ::test_newton_leaves_a_saddle_and_takes_the_lowest_of_several_starts "
            "::test_evidence_equals_the_published_form_in_function_space inference/laplace/test_mode.py"
        ),
        (
            "the evidence misses half of the determinant",
            "0.5 * v @ v + 0.5 * _projected_logdet(",
            "0.5 * v @ v + 1.0 * _projected_logdet(",
        ),
        ("the highest mode is taken", "return min(found, key=", "return max(found, key="),
        ("the mode does not move with the features", "v = mode - solve_factor(", "v = mode - 0.0 * solve_factor("),
    ),
    *mutants_of(
        "inference/laplace/pooled_rows.py",
        "inference/laplace/test_pooled_rows.py inference/laplace/test_fit.py inference/laplace/test_annealing.py",
        (
            "the constant is not squared in sparse rows",
            "device=alpha.device) + self._bias**2 * alpha.sum()",
            "device=alpha.device) + self._bias * alpha.sum()",
        ),
        (
            "sparse rows are not centred against each other",
            "along[None, :] + self._centre @ self._centre",
            "along[None, :]",
        ),
    ),
    *mutants_of(
        "inference/laplace/annealing.py",
        "inference/laplace/test_annealing.py inference/laplace/test_pooled_rows.py inference/laplace/test_fit.py",
        (
            "temperatures grow hundredfold",
            "FIRST_SHARPNESS, GROWTH = 0.1, 10.0",
            "FIRST_SHARPNESS, GROWTH = 0.1, 100.0",
        ),
        ("witnesses are averaged where they should not be", "if self._schedule.averaged else 1.0", "if True else 1.0"),
        (
            "witnesses alternate softly",
            "            return hard_witness\n",
            "            return functools.partial(soft_witness, sharpness=1.0)\n",
        ),
        ("the annealing never ends by itself", "if open_end and self._bags.moved()", "if False and self._bags.moved()"),
        (
            "the last temperature is left out",
            "self._last_stage = schedule.most_stages - 1",
            "self._last_stage = schedule.most_stages - 2",
        ),
    ),
    *mutants_of(
        "inference/laplace/chunked_weights.py",
        "inference/laplace/test_chunked_weights.py",
        ("witnesses are counted from the chunk's first row", "rows = chunk.first + chunk", "rows = chunk"),
        (
            "weights are compared with equal ones for ever",
            "change), state._replace(before=state.weights)",
            "change), state",
        ),
        ("the constant counts as variance of the kernel", "design.phi[:, :n_inducing]", "design.phi"),
        ("the last chunk's change is all", "changes[number] = change", "changes[-1] = change"),
    ),
    *mutants_of(
        "inference/laplace/fit.py",
        "inference/laplace/test_fit.py ::test_bags_by_bags_equals_instances_by_instances",
        ("the posterior mean has the wrong sign", "return -(T.T @ loss.slope(a))", "return (T.T @ loss.slope(a))"),
    ),
    *mutants_of(
        "inference/chains/gibbs.py",
        GIBBS,
        ("every sweep has the same random numbers", "counter=[0, 0, 0, sweep]", "counter=[0, 0, 0, 0]"),
        (
            "the scale step takes one degree of freedom per instance too many",
            "self._half_rows = 0.5 * rows[",
            "self._half_rows = 1.0 * rows[",
        ),
        ("the first positive is free to be negative", "log_mass[first] = log_ndtr(z[first])", "log_mass[first] = 0.0"),
        (
            "instances about which nothing is known pull",
            "        m.masked_fill_(plan.unstated, 0.0)\n    return m, log_z",
            "        pass\n    return m, log_z",
        ),
        (
            "a chunk takes the random numbers of the first rows",
            "slice(chunk.first, chunk.first + len(chunk.design.phi))",
            "slice(0, len(chunk.design.phi))",
        ),
        (
            "known negatives may be drawn positive",
            "log_p.masked_fill(part.known == 0, -torch.inf), log_q",
            "log_p, log_q",
        ),
    ),
    *mutants_of(
        "inference/chains/birth_death.py",
        "inference/chains/test_birth_death.py",
        (
            "proposals do not know how many kernels there are",
            "birth[:-1] / (size - k[:-1]), death[1:] / k[1:]",
            "birth[:-1] / size, death[1:] / size",
        ),
        ("a birth costs nothing in scale", "entrance.surprise**2 / d) - self._half_log", "entrance.surprise**2 / d)"),
        (
            "a death is priced one kernel too high",
            "-self.dictionary.birth[self.count - 1]",
            "-self.dictionary.birth[self.count]",
        ),
    ),
    *mutants_of(
        "inference/chains/kernel_machine.py",
        MACHINE,
        (
            "the misprint of the paper: one weight too many",
            "return 0.5 * (self._prior.mu + count)",
            "return 0.5 * (self._prior.mu + count + 1)",
        ),
        (
            "the jitter is dropped",
            "gram + jitter * (size if size > 0 else 1.0)",
            "gram + 0.0 * (size if size > 0 else 1.0)",
        ),
    ),
    *mutants_of(
        "inference/chains/mixing.py",
        "inference/chains/test_mixing.py inference/chains/test_diagnostics.py",
        (
            "chains are not split",
            "np.concatenate([chains[..., :half], chains[..., -half:]], axis=-2)",
            "chains[..., : 2 * half]",
        ),
        ("the tails are not looked at", "_normal_scores(abs(halves - middle))", "_normal_scores(halves - middle)"),
        ("ranks are shifted", "(ranks - 0.375)", "(ranks - 0.5)"),
    ),
    *mutants_of(
        "inference/chains/diagnostics.py",
        "inference/chains/test_diagnostics.py inference/chains/test_mixing.py",
        ("few draws are enough", 'and (self.table["ess_bulk"] >= SMALLEST_ESS).all())', "and True)"),
        ("the best quantity is named", "np.argmax(np.where(np.isnan(badness)", "np.argmin(np.where(np.isnan(badness)"),
    ),
    *mutants_of(
        "inference/chains/run.py",
        f"{SAMPLING} inference/chains/test_run.py",
        (
            "chains are mixed up with label columns",
            "stacked.reshape(*stacked.shape[:2], -1, n_chains).permute(2, 3, 0, 1)",
            "stacked.reshape(*stacked.shape[:2], n_chains, -1).permute(3, 2, 0, 1)",
        ),
        ("a draw of the burn-in is kept", "if used > 0:", "if used >= 0:"),
        (
            "the evidence is no part of the identity",
            "hashlib.sha256(evidence + repr(settings).encode())",
            "hashlib.sha256(repr(settings).encode())",
        ),
    ),
    *mutants_of(
        "inference/chains/random_walk.py",
        "inference/chains/test_random_walk.py",
        ("known negatives may walk above zero", " | ((known == 0) & (z > 0))", ""),
        ("the walk ignores where f is", "-0.5 * (z - f).square()", "-0.5 * z.square()"),
    ),
    *mutants_of(
        "inference/chains/prediction_error.py",
        "inference/chains/test_prediction_error.py",
        (
            "errors of bags are those of negatives under the root",
            "positive = -torch.expm1(rule.log_negative(latent, column))",
            "positive = rule.log_negative(latent, column)",
        ),
    ),
    *mutants_of(
        "inference/candidates/conjugate_gradients.py",
        "inference/candidates/test_conjugate_gradients.py",
        ("the noise is left out of the product", ".reshape(v.shape).addcmul_(noise, v)", ".reshape(v.shape).add_(v)"),
        ("directions are not conjugate", "p.mul_(_ratio(rz, before)).add_(z)", "p.copy_(z)"),
    ),
    *mutants_of(
        "inference/candidates/exact.py",
        f"{SOLVERS} inference/candidates/test_exact.py ::test_with_an_orthogonal_set_of_probes_the_gradient_is_exact",
        (
            "the latent mean has the wrong sign of the noise",
            "return targets.value - targets.noise * weights",
            "return targets.value + targets.noise * weights",
        ),
        (
            "the data term of the gradient has the wrong sign",
            "u.flatten(1) / u.shape[2], -w]",
            "u.flatten(1) / u.shape[2], w]",
        ),
        ("the constant is left out of predictions", "x[some]).detach() + features.bias**2", "x[some]).detach()"),
    ),
    *mutants_of(
        "inference/candidates/kernel_matrix.py",
        SOLVERS,
        ("the constant is not squared", ".mul_(self.bias**2)", ".mul_(self.bias)"),
    ),
    *mutants_of(
        "inference/candidates/sparse.py",
        SOLVERS,
        (
            "the variational bound misses its trace",
            "constant = constant + (chunk.design.kappa[:, None] * weights.every).sum(0)",
            "constant = constant + 0.0",
        ),
        (
            "all classes have the precision of excluded ones",
            "(self.every[rows, c] - self.common[rows])",
            "0.0 * (self.every[rows, c] - self.common[rows])",
        ),
        ("the evidence forgets the fit", '- (sums["pull"] * mean).sum(0)', ""),
    ),
    *mutants_of(
        "inference/kernel_learning/ascent.py",
        "inference/kernel_learning/test_ascent.py",
        ("steps grow instead of dying out", "(1.0 + math.cos(math.pi", "(1.0 - math.cos(math.pi"),
    ),
    *mutants_of(
        "inference/kernel_learning/left_out.py",
        "models/_base/test_by_left_out_bags.py",
        (
            "models are judged by bags that they have seen",
            "bags[new], evidence.of_bags(new)",
            "bags[seen], evidence.of_bags(seen)",
        ),
        (
            "the first model is preferred",
            "log_probabilities[1] - log_probabilities[0]",
            "log_probabilities[0] - log_probabilities[1]",
        ),
    ),
    *mutants_of(
        "inference/kernel_learning/judges.py",
        "inference/kernel_learning/test_judges.py",
        (
            "bags of little weight have a site",
            "some.evidence.has_light_bags() or settings.by_moments",
            "settings.by_moments",
        ),
        ("who asks for moments gets messages", "has_light_bags() or settings.by_moments", "has_light_bags()"),
    ),
    *mutants_of(
        "inference/kernel_learning/judges.py",
        "inference/kernel_learning/test_learn.py ::test_a_negative_bag_has_as_many_pieces_in_every_stage",
        ("few bags are cut finer than all", "math.ceil(PIECES * self.share)", "PIECES"),
    ),
    *mutants_of(
        "inference/kernel_learning/learn.py",
        "inference/kernel_learning/test_learn.py ::test_second_search_looks_at_the_usual_starts_again",
        ("a kernel stays where few bags left it", "[found, *starts]", "[found]"),
        (
            "searches of very many rows look at the usual starts",
            "len(now) > last.n_bags and now.n_instances <= STAGES[-1]",
            "len(now) > last.n_bags",
        ),
    ),
    *mutants_of(
        "inference/kernel_learning/learn.py",
        "inference/kernel_learning/test_learn.py ::test_no_more_bags_are_asked_than_matter_for_so_many_parameters "
        "::test_bags_that_were_seen_in_part_do_not_stand_for_more",
        ("more bags are asked however little they matter", "if costs < _NEGLIGIBLE:", "if costs < 0.0:"),
        (
            "parts of bags stand for whole ones",
            "last is not None and _sees_all(bags, evidence, settings, last)",
            "last",
        ),
    ),
    *mutants_of(
        "inference/class_left_out.py",
        "inference/test_class_left_out.py",
        ("a half is asked about itself", "return [(one, other), (other, one)]", "return [(one, one), (other, other)]"),
        (
            "halves have sets of different kinds",
            "order[np.lexsort(stated.evidence.table[order].T)]",
            "order[np.arange(len(order))]",
        ),
        ("a difference is clear however much it varies", "errors * np.sqrt(len(gain))", "0.0 * np.sqrt(len(gain))"),
        ("two bags refute", "return len(gain) >= _FEWEST and ", "return len(gain) > 0 and "),
        ("a single bag decides", "found.clip(_LEAST)", "found.clip(1e-300)"),
        (
            "none of the classes is always possible",
            "table[:, -1] = evidence.table[:, -1].any()",
            "table[:, -1] = True",
        ),
    ),
    *mutants_of(
        "inference/class_engines.py",
        "inference/test_class_engines.py",
        ("the sets are followed whatever bags left out say", "on_to_sets=asked.prefers_sets", "on_to_sets=True"),
        ("the sets are never followed", "on_to_sets=asked.prefers_sets", "on_to_sets=False"),
    ),
    *mutants_of(
        "inference/class_law.py",
        "inference/test_class_law.py",
        ("no class is held to the law", "return scores + torch.nn", "return scores + 0.0 * torch.nn"),
    ),
    *mutants_of(
        "inference/kernel_learning/size_effect.py",
        "inference/kernel_learning/test_size_effect.py",
        (
            "a plain model that does not settle is kept",
            "math.inf if math.isnan(plain)",
            "-math.inf if math.isnan(plain)",
        ),
    ),
    *mutants_of(
        "inference/engines.py",
        "inference/test_bag_curves.py",
        ("sites that lose log evidence answer", "lost > _LOST", "lost > 1e9"),
    ),
    *mutants_of(
        "inference/kernel_learning/by_messages.py",
        "inference/kernel_learning/test_by_messages.py ::test_several_labels_are_judged_together",
        ("only the last label column moves the kernel", "further=column > 0", "further=False"),
    ),
    *mutants_of(
        "models/_base/flat_evidence.py",
        "models/_base/test_flat_evidence.py",
        (
            "the kernel that can do more is taken",
            "capacity(other, bags) < capacity(first",
            "capacity(other, bags) > capacity(first",
        ),
        ("a kernel that gained nothing is taken for being simpler", "gained < _NOTHING", "gained < -1.0"),
    ),
    *mutants_of(
        "models/_base/first_features.py",
        "models/_base/test_count_kernel.py",
        ("kinds of kernel are judged by different bags", "    model.seed_ = seed\n", ""),
    ),
    *mutants_of(
        "models/_base/count_kernel.py",
        "models/_base/test_count_kernel.py",
        (
            "bags left out are not asked about kinds",
            "if asks and prefer_second(",
            "if False and prefer_second(",
        ),
    ),
    *mutants_of(
        "models/_base/by_left_out_bags.py",
        "models/_base/test_by_left_out_bags.py",
        ("a learned kernel pays nothing for its parameters", "> n_parameters", "> -n_parameters"),
        ("who asks changes the seed", "    model.seed_ = seed ", "    # model.seed_ = seed "),
    ),
    *mutants_of(
        "predict/statements.py",
        "predict/test_statements.py",
        ("statements are summed over draws", " - np.log(len(each))", ""),
        ("labels are never wrong", "noise + (1.0 - 2.0 * noise) *", "(1.0 - 0.0 * noise) *"),
    ),
    *mutants_of(
        "aggregates.py",
        "test_aggregates.py cli/test_rates.py",
        ("bags that were not in the fit get rates", "    _refuse_unseen(model, bags, y)\n", ""),
        ("the composition always warns", "outside & (gain > -CLEAR)", "outside"),
    ),
    *mutants_of(
        "inference/kernel_learning/search.py",
        "inference/kernel_learning/test_search_in_numbers.py",
        (
            "the gradient of the prior has the wrong sign",
            "gradient - away / self._prior_width",
            "gradient + away / self._prior_width",
        ),
        ("the last point is kept instead of the best", "if value > self._best:", "if value > -math.inf:"),
        (
            "parameters without a prior start again at zero",
            "return np.where(proper, drawn, start)",
            "return drawn",
        ),
        (
            "restarts begin where the first did",
            "point = start if restart == 0 else",
            "point = start if restart >= 0 else",
        ),
        (
            "other starts are searched from where the usual one gains enough",
            "self._best - self._course[0] <= elsewhere.too_little",
            "elsewhere.starts",
        ),
    ),
    *mutants_of(
        "inference/laplace/around_mode.py",
        "inference/laplace/test_around_mode.py",
        ("the evidence misses the determinant", " - 0.5 * logdet(self._metric(rows, moving).lower)", ""),
        (
            "the mode does not move with the kernel",
            "moving = mode + change",
            "moving = mode + 0.0 * change",
        ),
    ),
    *mutants_of(
        "inference/kernel_learning/by_moments.py",
        "inference/laplace/test_around_mode.py",
        (
            "the variance of a potential is left out",
            "spread + self._variance + _LEAST_VARIANCE",
            "spread + _LEAST_VARIANCE",
        ),
    ),
]
