"""Bugs in what users see: measures, suggestions, plots, reports, the command line, benchmarks."""

from tests.mutants.mutant import mutants_of

SUGGEST = "test_suggestions.py"
PAGE = (
    "report/test_bag_cards.py ::test_only_bags_that_are_judged_wrongly_are_called_so "
    "::test_a_class_that_is_right_with_a_small_probability_is_no_mistake "
    "::test_bags_are_chosen_once_and_for_a_reason"
)

MUTANTS = [
    *mutants_of(
        "metrics.py",
        "test_metrics.py",
        (
            "one half counts as positive",
            '"accuracy": _mean((p > 0.5) == (known == 1))',
            '"accuracy": _mean((p >= 0.5) == (known == 1))',
        ),
        ("bins are weighted alike", ", weights=curve.counts))", "))"),
        (
            "unknown truth counts as negative",
            "known = ~np.isnan(truth)\n    return truth[known], proba[known]",
            "known = truth == truth\n    return np.nan_to_num(truth), proba",
        ),
        ("coverage forgives a whole instance", "(truth >= low - 0.5 / size)", "(truth >= low - 1.0 / size)"),
        ("a range is met beyond its end", "np.minimum(last, high) + 1e-9", "np.minimum(last, high) + 1"),
        (
            "the log-likelihood is that of the wrong side",
            "np.where(truth == 1, proba, 1.0 - proba)",
            "np.where(truth == 0, proba, 1.0 - proba)",
        ),
    ),
    *mutants_of(
        "active.py",
        SUGGEST,
        (
            "noise counts as information",
            "(conditional_entropy - outcomes.noise).clamp(min=0.0)",
            "conditional_entropy.clamp(min=0.0)",
        ),
        (
            "what is known already is chosen again",
            "self.left = torch.minimum(self.left, torch.stack(beside))",
            "self.left = self.left",
        ),
        ("chosen ones may be chosen again", "gains[self.chosen] = -np.inf", "gains[self.chosen[1:]] = -np.inf"),
        (
            "known instances are asked for",
            "numbers = numbers[np.isnan(bags.known)]",
            "numbers = numbers[: len(numbers)]",
        ),
        (
            "the least useful comes first",
            "np.argsort(-utilities[shuffled].round(_DECIMALS)",
            "np.argsort(utilities[shuffled].round(_DECIMALS)",
        ),
        (
            "an instance is judged as a bag of its own size",
            "given.sizes[given.index] if single else given.sizes",
            "np.ones(given.n_instances, dtype=np.int64) if single else given.sizes",
        ),
    ),
    *mutants_of(
        "plots/reliability.py",
        "plots/test_reliability.py",
        ("the interval of a share is half as wide", "half = z * np.sqrt(", "half = 0.5 * z * np.sqrt("),
    ),
    *mutants_of(
        "plots/bag.py",
        "plots/test_bag.py",
        (
            "the least probable come first",
            'np.argsort(-self.probability, kind="stable")[:max_instances]',
            'np.argsort(self.probability, kind="stable")[:max_instances]',
        ),
        (
            "truth is that of another bag",
            "return slice(int(bags.offsets[number]), int(bags.offsets[number + 1]))",
            "return slice(0, int(bags.offsets[number + 1] - bags.offsets[number]))",
        ),
    ),
    *mutants_of(
        "plots/decision_map.py",
        "plots/test_decision_map.py",
        ("other features are at their mean", "np.median(X, axis=0) if at is None", "np.mean(X, axis=0) if at is None"),
    ),
    *mutants_of(
        "report/bag_cards.py",
        PAGE,
        (
            "a right bag is called wrongly judged",
            "((probability > 0.5) != (truth == 1))",
            "((probability > 0.5) == (truth == 1))",
        ),
        (
            "a bag that is right at one half is called wrongly judged",
            "(probability > 0.5) != (truth",
            "(probability >= 0.5) != (truth",
        ),
        ("a right class is called wrongly judged", "surest[hits[surest] == 0]", "surest[hits[surest] == 1]"),
    ),
    *mutants_of(
        "report/answers.py",
        "report/test_answers.py report/test_content.py",
        (
            "a class of several candidates counts as known",
            "sure = np.sum(table, axis=1, keepdims=True) == 1",
            "sure = np.sum(table, axis=1, keepdims=True) >= 1",
        ),
        ("candidates beside others are taken for true", "(known == 1) | (~table & (known > 0))", "known > 0"),
        (
            "bags of which nothing is known are misses",
            "np.where(table.any(axis=1), right, np.nan)",
            "np.where(table.any(axis=1), right, 0.0)",
        ),
    ),
    *mutants_of(
        "report/content.py",
        "report/test_content.py report/test_answers.py",
        (
            "what a constant would reach has the wrong base",
            "p * math.log(p) for p in (share, 1.0 - share)",
            "p * math.log2(p) for p in (share, 1.0 - share)",
        ),
        (
            "intervals of counts stay fractions",
            "expected.lower * sizes, expected.upper * sizes)",
            "expected.lower, expected.upper)",
        ),
        (
            "chains that have not mixed are not announced",
            "found[0] <= LARGEST_R_HAT and found[1] >= SMALLEST_ESS",
            "found[0] <= LARGEST_R_HAT or found[1] >= SMALLEST_ESS",
        ),
    ),
    *mutants_of(
        "report/figures.py",
        "report/test_figures.py ::test_a_wild_start_does_not_flatten_the_course",
        ("the start decides about the view", "values[len(values) // 4 :]", "values[: len(values) // 4]"),
    ),
    *mutants_of(
        "cli/options.py",
        (
            "cli/test_options.py ::test_values_are_read_as_what_they_are cli/test_outputs.py "
            "::test_two_outputs_in_one_file_are_refused_before_anything_is_written "
            "::test_cli_refuses_to_overwrite_its_data"
        ),
        ("whole numbers become decimals", "(float,) if isinstance(default, float) else (int, float)", "(float,)"),
        (
            "an input may be overwritten",
            "if read.is_file() and is_same_file(path, read):",
            "if read.is_file() and path == read.name:",
        ),
        (
            "one file may take two outputs",
            "if not is_stream(path) and is_same_file(path, second):",
            "if is_stream(path) and is_same_file(path, second):",
        ),
    ),
    *mutants_of(
        "cli/evidence.py",
        "cli/test_evidence.py",
        (
            "candidates come in the order of their columns",
            "return found.y[names].to_numpy()",
            "return found.y.to_numpy()",
        ),
        (
            "ends of a range are swapped",
            "evidence.count(ends[:, 0], ends[:, -1], ids",
            "evidence.count(np.minimum(*ends.T), np.minimum(*ends.T), ids",
        ),
        ("a fraction is taken for a label", 'for kind in ("fraction", "count"):', 'for kind in ("count",):'),
    ),
    *mutants_of(
        "cli/suggest.py",
        (
            "cli/test_suggest.py ::test_only_what_is_not_known_is_suggested "
            "::test_bags_without_a_label_are_suggested_first "
            "::test_suggestions_for_several_labels_and_archives"
        ),
        (
            "only bags without any label are suggested",
            "reshape(len(known.bags), -1).any(axis=1)",
            "reshape(len(known.bags), -1).all(axis=1)",
        ),
    ),
    *mutants_of(
        "compare/folds.py",
        "compare/test_folds.py",
        (
            "groups are torn apart",
            "splitters[stratify, groups is not None]",
            "splitters[stratify, False]",
        ),
    ),
    *mutants_of(
        "labelling/gate.py",
        "labelling/test_gate.py labelling/test_server.py",
        (
            "other machines are let in unasked",
            "if not is_loopback(host) and not allow_others:",
            "if False:",
        ),
    ),
    *mutants_of(
        "bench/summary.py",
        "bench/test_summary.py bench/test_render.py bench/test_description.py",
        (
            "the overlap of training sets is upside down",
            'record["sizes"]["test"] / record["sizes"]["train"]',
            'record["sizes"]["train"] / record["sizes"]["test"]',
        ),
        (
            "the overlap of training sets is forgotten",
            "np.sqrt(1.0 / len(values) + overlap)",
            "np.sqrt(1.0 / len(values))",
        ),
        ("incomplete repeats are pooled", "if len(parts) == self.table.rule.folds:", "if parts:"),
        ("a published mean stands beside another set of rows", "if everything else ())", "if True else ())"),
        ("the test is one-sided", "return float(2.0 * stats.t.sf(", "return float(stats.t.sf("),
    ),
    *mutants_of(
        "bench/cells.py",
        (
            "bench/test_cells.py ::test_seeds_are_the_same_for_all_models_of_a_split_and_differ_between_splits "
            "::test_only_restricts_models_and_sets ::test_quick_cells_are_cells_of_the_full_table"
        ),
        (
            "every model has folds of its own",
            "return seed_of(*self.split_key)",
            "return seed_of(*self.split_key, self.model.name)",
        ),
        (
            "all folds have the same seed",
            "return self.table.name, self.data.name, self.repeat, self.fold",
            "return self.table.name, self.data.name, self.repeat, 0",
        ),
    ),
    *mutants_of(
        "bench/store.py",
        "bench/test_store.py io/test_plain_json.py",
        ("cells with an error are finished", 'and record["error"] is None', ""),
        ("other settings are no reason to measure again", 'record["fingerprint"] == cell.fingerprint', "True"),
    ),
    *mutants_of(
        "bench/protocols.py",
        "bench/test_protocols.py bench/test_candidate_splits.py bench/test_generated.py",
        (
            "training bags are tested",
            "train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)",
            "train, test = np.flatnonzero(is_test), np.flatnonzero(is_test)",
        ),
        (
            "components see the test bags",
            "_components(known.bags[~is_test], known.bags, self.components)",
            "_components(known.bags, known.bags, self.components)",
        ),
        ("a class may be missing from a half", "if y[is_test][:, usual].any(axis=0).all() and", "if True and"),
    ),
    *mutants_of(
        "bench/candidate_splits.py",
        "bench/test_candidate_splits.py bench/test_generated.py bench/test_protocols.py",
        ("columns are scaled by all bags", "X[learn[bags.index]].var(axis=0", "X.var(axis=0"),
    ),
    *mutants_of(
        "bench/measure.py",
        "bench/test_measure.py",
        (
            "decisions by the mode are measured by the probability",
            'metrics[row]["bag accuracy"] = float(np.mean((call == true)',
            'metrics[row]["called"] = float(np.mean((call == true)',
        ),
        (
            "instances without a class count as found",
            "np.mean(right[truth < q])",
            "np.mean(right[truth <= q])",
        ),
    ),
    *mutants_of(
        "bench/tables/text.py",
        "bench/test_tables.py ::test_published_figures_are_shares",
        ("published percentages are taken for shares", "    scale=0.01,\n)", "    scale=1.0,\n)"),
    ),
    *mutants_of(
        "bench/description.py",
        "bench/test_description.py ::test_typed_figures_become_rows_models_means_and_errors",
        (
            "the spread of a published figure is not scaled",
            "float(spread) * scale if spread",
            "float(spread) if spread",
        ),
    ),
]
