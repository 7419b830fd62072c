"""How ``BagGP`` is fitted to labels, fractions and counts: its features, their kernel, the posterior."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountInput
from bagwise.exceptions import BagDataError, ConvergenceWarning, NumericalError, warn_user
from bagwise.gp.features import Features
from bagwise.gp.posterior import Posterior
from bagwise.inference.engines import NEARLY, Inferred, Limits, by_bag_sites, by_mean_field, by_messages, engine_for
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.inference.loop import Trace, Watch
from bagwise.inference.rows_at_hand import rows_at_hand
from bagwise.models._base.by_left_out_bags import with_leftovers_or_without
from bagwise.models._base.chains import ChainSettings, forget_chains, gibbs_sampler, runner_of, sample
from bagwise.models._base.count_kernel import learned_features
from bagwise.models._base.learned_kernel import warn_if_unsettled
from bagwise.models._base.learned_nothing import warn_if_alike, warn_if_constant_is_as_good

LARGEST_REPEATED = 1_000_000  # individuals that get a row each where an inference cannot do with weights


def one_row_each(bags: Bags) -> Bags:
    """A row for every individual."""
    if bags.weight is not None and bags.totals.sum() > LARGEST_REPEATED:
        raise BagDataError(
            f"the rows stand for {bags.totals.sum():,} individuals, too many to give each a row of its own; use "
            "inference='laplace', which takes a row as it is."
        )
    return bags.repeated()


def fit_counts(model: Any, bags: Bags, counts: CountInput) -> None:
    """Learn the kernel and find the posterior of the latent function."""
    chosen = engine_for(bags, counts.evidence, counts.tight) if model.inference == "auto" else model.inference
    model.inference_ = chosen
    with rows_at_hand(bags):
        features = kept_or_learned(model, lambda: learned_features(model, bags, counts))
        features = with_leftovers_or_without(model, features, bags, counts.evidence)
        infer = _by_gibbs if model.inference_ == "gibbs" else _inferred
        found = infer(model, features, bags, counts.evidence)
    model._finish(features, found.posterior, model.rule_, found.trace, found.log_evidence)
    _warn_if_nothing_learned(model, bags, counts.evidence)


def _warn_if_nothing_learned(model: Any, bags: Bags, evidence: CountEvidence) -> None:
    if evidence.observed().any():
        warn_if_alike(model, bags)
    if evidence.only_labels() and model.inference_ in ("ep", "bag-ep"):  # the mean field has a bound only
        warn_if_constant_is_as_good(model, evidence.labels, evidence.weight)


# ---------------------------------------------------------------- features


def kept_or_learned(model: Any, learn: Callable[[], Learned]) -> Features:
    """Those of the last fit if its chains are to go on, new and learned ones otherwise."""
    if model.inference == "gibbs" and runner_of(model).goes_on(ChainSettings.of(model)):
        kept: Features = model.features_
        return kept
    forget_chains(model)
    model.learning_trace_ = None
    learned = learn()
    model.learning_trace_ = learned.trace
    warn_if_unsettled(learned.trace)
    return learned.features


# ---------------------------------------------------------------- inference


def _inferred(model: Any, features: Features, bags: Bags, evidence: CountEvidence) -> Inferred:
    """By the engine of ``inference_``; where it fails by the next one that can answer, with a warning."""
    limits = Limits(model.max_iter, model.tol, Watch(type(model).__name__, model.verbose, model.callback), NEARLY)
    while model.inference_ != "vi":
        try:
            if model.inference_ == "ep":
                return by_messages(features, bags, evidence, limits)
            return by_bag_sites(features, bags, evidence, limits, model.seed_, curved=True)
        except NumericalError as error:
            _fall_back(model, error, evidence)
    return by_mean_field(features, bags, evidence, limits)


def _fall_back(model: Any, error: NumericalError, evidence: CountEvidence) -> None:
    """From messages to one site per bag where labels are all that bags state, else to the mean field."""
    what = "expectation propagation" if model.inference_ == "ep" else "expectation propagation with a site per bag"
    sites = model.inference_ == "ep" and evidence.only_labels()
    failed = f"{what} failed ({error})"
    model.inference_ = "bag-ep" if sites else "vi"
    model.fallback_ = failed if model.fallback_ is None else f"{model.fallback_}, then {failed}"
    answer = "the answer with one site per bag" if sites else "the mean-field answer"
    warn_user(f"{failed}; {answer} is given instead (inference_ is {model.inference_!r}).", ConvergenceWarning)


class WithoutLogEvidence(NamedTuple):
    """What chains leave behind, in the shape of what other inferences leave behind."""

    posterior: Posterior
    trace: Trace
    log_evidence: None = None


def _by_gibbs(model: Any, features: Features, bags: Bags, evidence: CountEvidence) -> WithoutLogEvidence:
    if model.learning_trace_ is not None and model.learning_trace_.interrupted:
        raise KeyboardInterrupt("fit was interrupted while learning the kernel, before there was a single draw.")
    settings = ChainSettings.of(model)
    gibbs = gibbs_sampler(features, bags, evidence, settings, model.seed_)
    return WithoutLogEvidence(*sample(model, settings, gibbs, features, bags, evidence, ()))
