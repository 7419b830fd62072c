"""Bugs in what bags say: counts, noisy labels, soft maxima, candidates, rules."""

from tests.mutants.mutant import mutants_of

RULES = "bag_models/test_rule_answers.py"

MUTANTS = [
    *mutants_of(
        "bag_models/counts.py",
        "bag_models/test_counts.py evidence/test_counts.py",
        ("noise shrinks labels by half of what it should", "math.log1p(-2.0 * noise)", "math.log1p(-noise)"),
        ("negatives pull upwards", "- torch.exp(found.log_rbar", "+ torch.exp(found.log_rbar"),
        (
            "rows of a later chunk are counted from the first one",
            "rows - evidence.offsets[part.start]",
            "rows - evidence.offsets[0]",
        ),
        ("a missing label counts as a negative one", "log_z.masked_fill(missing, 0.0), g", "log_z, g"),
    ),
    *mutants_of(
        "bag_models/pieces.py",
        "bag_models/test_pieces.py",
        (
            "positive bags are cut too",
            "np.where(labels == 0, -(-sizes // max(rows, 1)), 1)",
            "-(-sizes // max(rows, 1))",
        ),
        ("labels that may be wrong are cut", "if evidence.label_noise > 0:", "if evidence.label_noise > 1:"),
        ("pieces of a bag have the rows of others", "within * sizes[bag] // counts[bag]", "within * rows"),
    ),
    *mutants_of(
        "bag_models/counts.py",
        "bag_models/test_pieces.py",
        ("tables stay with the numbers of bags", "replace(table, bags=pieces.first[table.bags])", "table"),
        ("pieces count as often as the first bags", "self.weights.some(pieces.bag)", "self.weights"),
    ),
    *mutants_of(
        "bag_models/noisy_or.py",
        "bag_models/test_noisy_or.py",
        (
            "a label fits bags without positives",
            "given_none = torch.where(stated.labels == 1, log_miss, log_fit)",
            "given_none = torch.where(stated.labels == 1, log_fit, log_miss)",
        ),
        (
            "a label counts though a positive is known",
            "torch.isnan(stated.labels) | stated.has_known_positive, 0.0)",
            "torch.isnan(stated.labels), 0.0)",
        ),
        (
            "the running sum of a bag rises",
            "self.total[bags] = others - np.logaddexp",
            "self.total[bags] = others + np.logaddexp",
        ),
        (
            "known instances have an entropy",
            "entropy = bernoulli_entropy(logits) * stated.unsure",
            "entropy = bernoulli_entropy(logits)",
        ),
        (
            "known negatives may be positive in a table",
            "log_sigmoid(eta).masked_fill(part.known == 0, -torch.inf)",
            "log_sigmoid(eta)",
        ),
    ),
    *mutants_of(
        "bag_models/soft_max.py",
        "bag_models/test_soft_max.py",
        ("the mean grows with the size of the bag", "total = total - sizes.reshape", "total = total + sizes.reshape"),
        ("the curvature has a wrong sign inside", "(self.losses.bend(a) - tilt)", "(self.losses.bend(a) + tilt)"),
        (
            "several largest witnesses count in full",
            "return largest / segments.spread(segments.sum(largest))",
            "return largest",
        ),
        ("bags without a label pull", "return -times * sign * self.link.slope", "return -sign * self.link.slope"),
    ),
    *mutants_of(
        "bag_models/dirichlet.py",
        "bag_models/test_dirichlet.py inference/candidates/test_sparse.py equivalence/test_candidate_solvers.py",
        (
            "the log-normal law has the mode of the Gamma law for its mean",
            "torch.log(alpha) - 0.5 * noise",
            "torch.log(alpha)",
        ),
        (
            "classes that are no candidates get a share",
            "latent.masked_fill(~candidates, -torch.inf), dim=1) + eps",
            "latent, dim=1) + eps",
        ),
        (
            "two instances of a bag must have a class",
            "0.5 * segments.sizes.to(odds), max=1.0)",
            "0.5 * segments.sizes.to(odds), max=2.0)",
        ),
        (
            "the bag-wide update comes a round late",
            "rounds_made >= self.first_rounds:",
            "rounds_made > self.first_rounds:",
        ),
    ),
    *mutants_of(
        "bag_models/rules.py",
        RULES,
        (
            "the noise of large bags depends on their company",
            "default_rng([latent.points.seed, 1])",
            "default_rng([latent.points.seed, len(latent.bags)])",
        ),
        ("turns of the leftover are added instead of averaged", " - math.log(len(logs))", ""),
        ("control variates push the wrong way", "(expected - mean[:, 1:])", "(mean[:, 1:] - expected)"),
        (
            "the soft maximum is not corrected by its instances",
            "shares * (exact[:, column] - single)",
            "0.0 * (exact[:, column] - single)",
        ),
        (
            "a bag may contradict its instances",
            "found.clamp(latent.segments.max(each), latent.over_people(each).clamp(max=1.0))",
            "found",
        ),
        (
            "the last class counts though it is none of them",
            "theta[:, :-1] if self.none else theta",
            "theta[:, 1:] if self.none else theta",
        ),
        (
            "the witness given v forgets the leftovers",
            "return _negative(latent, rows @ latent.points.weights[column], left)",
            "return _negative(latent, rows @ latent.points.weights[column], 0.0 * left)",
        ),
    ),
]
