"""Bags with candidate sets, cut into halves: files rebuilt after the paper, and bags of posts dealt here."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedShuffleSplit

from bagwise.bags import Bags
from bagwise.bench.description import DataSet, Floats, Part, Place, Split
from bagwise.bench.protocols import path_of, read, stored_array
from bagwise.datasets.candidates import make_candidate_bags
from bagwise.exceptions import BagDataError
from bagwise.io.npz import read_labelled_rows

POSTS = "newsgroups20_counts"
_POST_TARGETS = (
    "alt.atheism",
    "comp.os.ms-windows.misc",
    "comp.sys.mac.hardware",
    "misc.forsale",
    "rec.autos",
    "rec.sport.hockey",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.mideast",
)
_POST_BAGS, _WORDS, _POST_SPLITS = 1000, 200, 10


class Candidates(NamedTuple):
    """Bags of which a candidate set is known, and the truth about them."""

    bags: Bags
    candidates: NDArray[np.int64]  # (B, q) of 0/1
    y: NDArray[np.int64]  # (B,) the true candidate
    instance_y: Floats  # (N,), q for none of them, NaN unknown
    halves: NDArray[np.bool_]  # (splits, B), true where a bag is tested


@dataclass(frozen=True)
class CandidateHalves:
    """Half of the bags learn from their candidate sets; ``key`` of a data set is the number of false candidates.

    Evidence "candidates" is the 0/1 matrix itself. For binary models a bag with c candidates becomes c bags with one
    label each, as published ("one against the rest"): every label column sees it once as positive for its own
    candidate and c - 1 times as negative.

    Columns are divided by their standard deviations over the training half, or, in the files ``one_unit``, all by one
    number: pixels and word weights share a unit, and those that hardly ever differ from zero should count little.
    """

    one_unit: tuple[str, ...] = ()
    folds: int = 1

    def split(self, place: Place) -> Split:
        """Bags of one half with their candidates, the true classes of the other."""
        known = _known(place.folder, place.data)
        is_test = _half(known, place)
        scaled = _scaled(known.bags, ~is_test, place.data.file in self.one_unit)
        train, candidates = scaled[~is_test], known.candidates[~is_test]
        numbers, classes = np.nonzero(candidates)
        one_each = train[numbers], np.eye(candidates.shape[1])[classes]
        evidence = {"candidates": (train, candidates), "one against the rest": one_each}
        learned, tested = (_part(known, scaled, chosen, place.data) for chosen in (~is_test, is_test))
        return Split(evidence, (tested,), learned)


def _part(known: Candidates, scaled: Bags, chosen: NDArray[np.bool_], data: DataSet) -> Part:
    """Some of the bags with the truth about them."""
    rows = known.instance_y[chosen[known.bags.index]]
    return Part(scaled[chosen], data.row_names, known.y[chosen].astype(float), rows)


def _half(known: Candidates, place: Place) -> NDArray[np.bool_]:
    if place.repeat >= len(known.halves):
        raise BagDataError(
            f"{place.data.file}.npz: holds {len(known.halves)} splits, but number {place.repeat + 1} is asked for."
        )
    half: NDArray[np.bool_] = known.halves[place.repeat]
    return half


def _scaled(bags: Bags, learn: NDArray[np.bool_], together: bool) -> Bags:
    """Kernels and the SVM see differences only, so nothing is subtracted."""
    X = np.asarray(bags.X, dtype=np.float32)
    variance = X[learn[bags.index]].var(axis=0, dtype=np.float64)
    divisor = np.sqrt(variance.mean() if together else np.where(variance > 0, variance, 1.0))
    return bags.with_features(X / divisor.astype(np.float32))


# ---------------------------------------------------------------- where the bags come from


@lru_cache(maxsize=2)
def _known(folder: Path, data: DataSet) -> Candidates:
    n_false = int(data.key)
    return _posts(folder, data, n_false) if data.file == POSTS else _rebuilt(folder, data, n_false)


def _rebuilt(folder: Path, data: DataSet, n_false: int) -> Candidates:
    """A file with candidate sets for some numbers of false candidates; larger sets are drawn from the largest."""
    bags, y, instance_y = read(folder, data, "y")
    halves = stored_array(folder, data, "test_bag_half")
    sets = {r: stored_array(folder, data, name) for r, name in ((1, "candidates"), *_numbered(n_false))}
    largest = max((r for r, table in sets.items() if table is not None), default=None)
    if halves is None or instance_y is None or largest is None:
        raise BagDataError(
            f"{path_of(folder, data)}: expected the arrays 'candidates', 'test_bag_half' and 'instance_y'."
        )
    candidates = _with_more(np.asarray(sets[largest], dtype=np.int64), n_false)
    return Candidates(bags, candidates, y.astype(np.int64), instance_y, halves.astype(bool))


def _numbered(n_false: int) -> list[tuple[int, str]]:
    return [(r, f"candidates_r{r}") for r in range(2, n_false + 1)]


def _with_more(table: NDArray[np.int64], n_false: int) -> NDArray[np.int64]:
    """Candidate sets with further false candidates drawn evenly, the same for everyone."""
    grown, random = table.copy(), np.random.default_rng(n_false)
    for row in grown:
        lacking = n_false + 1 - int(row.sum())
        row[random.choice(np.flatnonzero(row == 0), lacking, replace=False)] = 1
    return grown


def _posts(folder: Path, data: DataSet, n_false: int) -> Candidates:
    """1,000 bags of 11 to 75 posts, 8 % of them of the bag's group: the 200 words with the most weight, as tf-idf."""
    made = make_candidate_bags(
        _weighted_words(folder, data),
        _POST_TARGETS,
        _POST_BAGS,
        (11, 75),
        n_false=n_false,
        positive_share=0.08,
        replace=True,
        random_state=0,
    )
    halves = np.zeros((_POST_SPLITS, _POST_BAGS), dtype=bool)
    splitter = StratifiedShuffleSplit(_POST_SPLITS, test_size=0.5, random_state=0)
    for half, (_, test) in zip(halves, splitter.split(made.y, made.y), strict=True):
        half[test] = True
    return Candidates(made.bags, made.candidates, made.y, made.instance_y.astype(float), halves)


def _weighted_words(folder: Path, data: DataSet) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """(N, 200) tf-idf of all posts, and the names of their groups."""
    counts, numbers, _ = read_labelled_rows(path_of(folder, data))
    names = stored_array(folder, data, "class_names")
    assert names is not None
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(scipy.sparse.csr_matrix(counts, dtype=np.float64))
    heaviest = np.sort(np.argsort(-np.asarray(weights.sum(axis=0)).ravel())[:_WORDS])
    return weights[:, heaviest].toarray().astype(np.float32), names[numbers]
