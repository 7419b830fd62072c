"""How ``BagGP`` is fitted to bags that have one class out of many (theory section 16)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from bagwise.bag_models.classes import ProbitClasses
from bagwise.bag_models.rules import OneOfTheClasses
from bagwise.bags import Bags
from bagwise.evidence.candidates import with_none
from bagwise.evidence.classes import ClassInput, read_classes
from bagwise.evidence.known import has_known
from bagwise.evidence.reading import joined_statement
from bagwise.evidence.statements import CANDIDATES
from bagwise.exceptions import BagDataError, ConvergenceWarning, NumericalError, warn_user
from bagwise.gp.features import Features
from bagwise.inference.chains.class_gibbs import ClassGibbs
from bagwise.inference.chunks import in_memory
from bagwise.inference.class_engines import by_class_mean_field, by_class_sites
from bagwise.inference.class_left_out import LeftOut, StatedBags
from bagwise.inference.class_start import guessed_classes, leaves_choice
from bagwise.inference.engines import NEARLY, Inferred, Limits
from bagwise.inference.kernel_learning.learn import STAGES, Learned, learn_features
from bagwise.inference.kernel_learning.settings import LearningSettings
from bagwise.inference.loop import Watch
from bagwise.models._base.chains import ChainSettings, sample
from bagwise.models._base.count_fit import WithoutLogEvidence, kept_or_learned
from bagwise.models._base.count_kernel import highest_reached
from bagwise.models._base.first_features import (
    features_beside,
    first_features,
    kinds_in_question,
    wants_sizes,
    with_sizes,
)
from bagwise.models._base.learned_nothing import warn_if_alike

CLASS_KINDS = ("candidates", "class")
_CLEARLY = 3.0  # standard errors by which bags left out have to speak against a kernel of the first kind


def states_classes(model: Any, y: Any, bags: Bags, *, keyed: bool) -> bool:
    """Whether ``y`` is about classes: the model is set to classes, or some statement names them."""
    statement = joined_statement(y, bags, keyed)
    if statement is None:
        return model.evidence in CLASS_KINDS
    return bool((statement.kind == CANDIDATES).any())


def fit_classes(model: Any, bags: Bags, y: Any, *, keyed: bool) -> None:
    """Learn the kernel and find the posterior of one latent function per class."""
    _check_for_classes(model, bags)
    read = read_classes(y, bags, keyed=keyed)
    model._remember(with_none(read.classes) if read.none else read.classes, None)
    with_none(read.classes)  # refuses a class of the name of the added one
    model.rule_ = OneOfTheClasses(read.none)
    model.fallback_, model.inference_ = None, "bag-ep" if model.inference == "auto" else model.inference
    left_out = None

    def learn() -> Learned:
        nonlocal left_out
        learned, *_, left_out = _learned(model, read)
        return learned

    features = kept_or_learned(model, learn)
    sampled = model.inference_ == "gibbs"
    found = _sampled(model, features, read) if sampled else _inferred(model, features, read, left_out)
    log_evidence = None if found.log_evidence is None else found.log_evidence.sum()[None]
    model._finish(features, found.posterior, model.rule_, found.trace, log_evidence)
    warn_if_alike(model, bags)


def _check_for_classes(model: Any, bags: Bags) -> None:
    """Refuse settings that classes do not go together with."""
    if model.inference == "ep":
        raise BagDataError(
            "inference='ep' sends a message to every instance, which is for labels and counts; for classes use "
            "inference='bag-ep' (one site per bag, the default), 'vi' or 'gibbs'."
        )
    if model.label_noise > 0:
        raise BagDataError(
            f"label_noise={model.label_noise}: for labels only. Where the class of a bag is in doubt give it more "
            "candidates."
        )
    if has_known(bags) and not isinstance(model.size_effect, str) and model.size_effect:
        raise BagDataError(
            "size_effect=True: instances that are known one by one have a size of their own beside classes; use "
            "size_effect=False, or drop them with bags.with_known(None)."
        )


# ---------------------------------------------------------------- features


class _Reached(NamedTuple):
    learned: Learned
    first: Features
    read: ClassInput  # what it was judged by
    worth: float  # by which kernels are compared
    left_out: LeftOut | None = None  # what bags left out say where bags have several candidates

    def interrupted(self) -> bool:
        return self.learned.trace is not None and self.learned.trace.interrupted


def _learned(model: Any, read: ClassInput) -> _Reached:
    """The best kind of kernel on the first rows; more rows only where the user names a number.

    A look at a bag costs as much for every class, so the search ends with the first rows unless ``learn_rows`` is set.
    """
    kinds = kinds_in_question(model, read.bags)
    if not model.learn:
        (first,) = _firsts(model, read, kinds[:1])
        return _Reached(Learned(first, None), first, read, 0.0)
    reach = _reached_by_guesses if leaves_choice(torch.from_numpy(read.evidence.table)) else _reached
    best = reach(model, read, _firsts(model, read, kinds))
    if model.learn_rows is None or model.learn_rows <= STAGES[0] or best.interrupted():
        return best
    return best._replace(learned=_search(model, best.read, best.first, begin=best.learned.features), left_out=None)


def _firsts(model: Any, read: ClassInput, kinds: Sequence[Any]) -> list[Features]:
    """Features of every kind of kernel before anything is learned."""
    bags = read.bags
    first = first_features(model, bags, kinds[0])
    every = [first, *(features_beside(first, model, bags, kind) for kind in kinds[1:])]
    return [with_sizes(features, bags, wants_sizes(model)) for features in every]


def _reached(model: Any, read: ClassInput, firsts: Sequence[Features]) -> _Reached:
    """The kernel that explains the classes best, of the best kind."""
    return max((_explaining(model, read, first) for first in firsts), key=_worth)


def _explaining(model: Any, read: ClassInput, first: Features) -> _Reached:
    learned = _search(model, read, first, one_stage=True)
    return _Reached(learned, first, read, highest_reached(learned.trace))


def _reached_by_guesses(model: Any, read: ClassInput, firsts: Sequence[Features]) -> _Reached:
    """The kernel that explains guesses at the classes best; guesses and kernel are found in turn, twice.

    Sets of candidates are often explained almost as well by a kernel that tells nothing apart. One labelling of all
    bags is not. But kernels that led to different guesses explain different things, so of all that were met one is kept
    by what the sets of bags say that are left out. Kinds of kernel are tried once each; the better one goes on.
    """
    met = [reached for first in firsts for reached in _first_guesses(model, read, first)]
    kept = _kept(met)
    way = [reached for reached in met if reached.first is kept.first]
    if not (way[-1].interrupted() or _same_guesses(way[-2], way[-1])):
        way.append(_guessed_again(model, read, way[-1]))
        kept = _kept([met[0], *way])
    return kept._replace(learned=kept.learned._replace(trace=way[-1].learned.trace))


def _kept(met: Sequence[_Reached]) -> _Reached:
    """The one of most worth that bags left out do not speak against, for the very first one.

    Against another kind of kernel they need not speak clearly.
    """
    plain = met[0]
    ordered = sorted(met, key=_worth, reverse=True)
    return next(one for one in ordered if one is plain or not _refuted(one, plain))


def _refuted(one: _Reached, plain: _Reached) -> bool:
    assert one.left_out is not None
    assert plain.left_out is not None
    return plain.left_out.refutes(one.left_out, _CLEARLY if one.first is plain.first else 0.0)


def _first_guesses(model: Any, read: ClassInput, first: Features) -> Iterator[_Reached]:
    """Guesses at the first kernel of a kind, and at the one that explains these best."""
    start = _guess(model, read, first, Learned(first, None))
    yield start
    yield _guessed_again(model, read, start)


def _guessed_again(model: Any, read: ClassInput, last: _Reached) -> _Reached:
    learned = _search(model, last.read, last.first, begin=last.learned.features, one_stage=True)
    return _guess(model, read, last.first, learned)


def _guess(model: Any, read: ClassInput, first: Features, learned: Learned) -> _Reached:
    features, bags = learned.features, read.bags
    guess = guessed_classes(features, bags, read.evidence, model.seed_)
    asked = LeftOut(features, StatedBags(bags, read.evidence), model.seed_)
    return _Reached(learned, first, read._replace(evidence=guess.evidence), guess.left_out, asked)


def _same_guesses(one: _Reached, other: _Reached) -> bool:
    """Whether the kernel that explains the first best is that of the second as well."""
    return np.array_equal(one.read.evidence.table, other.read.evidence.table)


def _worth(reached: _Reached) -> float:
    return reached.worth


def _search(
    model: Any, read: ClassInput, features: Features, *, begin: Features | None = None, one_stage: bool = False
) -> Learned:
    settings = LearningSettings(
        model.n_restarts,
        model.learn_inducing,
        np.random.RandomState(model.seed_),
        by_bags=True,
        rows=model.learn_rows,
        one_stage=one_stage,
    )
    watch = Watch("learning the kernel", model.verbose)
    return learn_features(features, read.bags, read.evidence, settings, watch, begin)


# ---------------------------------------------------------------- inference


def _inferred(model: Any, features: Features, read: ClassInput, left_out: LeftOut | None) -> Inferred:
    """One site per bag and class; the mean field where these do not settle, with a warning."""
    limits = Limits(model.max_iter, model.tol, Watch(type(model).__name__, model.verbose, model.callback), NEARLY)
    if model.inference_ == "bag-ep":
        try:
            return by_class_sites(features, read.bags, read.evidence, limits, model.seed_, left_out)
        except NumericalError as error:
            model.inference_, model.fallback_ = "vi", f"expectation propagation with a site per bag failed ({error})"
            warn_user(
                f"{model.fallback_}; the mean-field answer is given instead (inference_ is 'vi').", ConvergenceWarning
            )
    return by_class_mean_field(features, read.bags, read.evidence, limits)


def _sampled(model: Any, features: Features, read: ClassInput) -> WithoutLogEvidence:
    settings = ChainSettings.of(model)
    sampler = ClassGibbs(
        in_memory(features, read.bags, ProbitClasses(read.evidence), integrated=True),
        torch.as_tensor(read.evidence.observed(), device=features.device),
        n_rows=read.bags.n_instances,
        n_chains=settings.length.n_chains,
        seed=model.seed_,
        rescale=settings.scale_step,
    )
    return WithoutLogEvidence(*sample(model, settings, sampler, features, read.bags, read.evidence, ()))
