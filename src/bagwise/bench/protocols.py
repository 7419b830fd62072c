"""How data sets are cut into training and test bags, and prepared: one rule per protocol."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from bagwise._archives import opened_archive
from bagwise.bags import Bags
from bagwise.bench.description import DataSet, Floats, Part, Place, Split
from bagwise.bench.generated import recovery_bags
from bagwise.datasets.groups import make_groups
from bagwise.exceptions import BagDataError
from bagwise.io.npz import read_npz

Ints = NDArray[np.int64]


class Known(NamedTuple):
    """A data set with everything that is known about it."""

    bags: Bags
    y: Any
    instance_y: Floats | None


# ---------------------------------------------------------------- one label per bag


@dataclass(frozen=True)
class Folds:
    """Stratified folds over bags: those in the file (``folds``, one row per repeat) where there are any, else drawn.

    ``words`` takes the rows as sparse vectors and scales them to length one, as is usual for text.
    """

    folds: int = 10
    words: bool = False

    def split(self, place: Place) -> Split:
        """Training bags with their labels, test bags with theirs and those of their instances."""
        known = read(place.folder, place.data, "y")
        if self.words:
            rows = scipy.sparse.csr_matrix(known.bags.X, dtype=np.float64)
            known = known._replace(bags=known.bags.with_features(normalize(rows)))
        return label_split(known, fold_of_bags(place, known.y, self.folds) == place.fold, place.data)


@dataclass(frozen=True)
class KernelPCAFolds:
    """Stratified folds; RBF kernel PCA with γ = 1/(2D) of all instances, whose labels it does not see.

    That is how the papers' figures arise. With ``inductive`` the components are those of the training instances, and
    test instances are projected on them: what a user has to expect of bags that are not there yet.
    In double precision: in single precision the eigenvalues beyond the first few are noise.
    """

    folds: int = 10
    components: int = 100
    inductive: bool = False

    def split(self, place: Place) -> Split:
        """The split of ``Folds`` with the leading kernel principal components as features."""
        known = read(place.folder, place.data, "y")
        is_test = fold_of_bags(place, known.y, self.folds) == place.fold
        if self.inductive:
            features = _components(known.bags[~is_test], known.bags, self.components)
        else:
            features = _all_components(place.folder, place.data, self.components)
        return label_split(known._replace(bags=features), is_test, place.data)


@lru_cache(maxsize=2)
def _all_components(folder: Path, data: DataSet, count: int) -> Bags:
    """The same for all folds, so computed once."""
    bags = read(folder, data, "y").bags
    return _components(bags, bags, count)


def _components(seen: Bags, bags: Bags, count: int) -> Bags:
    """The bags with their projections on the components of those that are seen."""
    gamma = 0.5 / seen.n_features
    transformer = KernelPCA(count, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0)
    transformer.fit(np.asarray(seen.X, dtype=np.float64))
    return bags.with_features(transformer.transform(np.asarray(bags.X, dtype=np.float64)))


@dataclass(frozen=True)
class RandomSplits:
    """A share of the bags, drawn anew in every repeat and stratified by the label in the array ``key``, is tested."""

    test_share: float
    key: str = "y"
    folds: int = 1

    def split(self, place: Place) -> Split:
        """Training bags with their labels, test bags with theirs."""
        known = read(place.folder, place.data, self.key)
        return label_split(known, stratified_test(known.y, self.test_share, place.seed), place.data)


def label_split(known: Known, is_test: NDArray[np.bool_], data: DataSet) -> Split:
    """Cut bags with binary labels, one column of them or several."""
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    rows = np.isin(known.bags.index, test)
    truth = None if known.instance_y is None else known.instance_y[rows]
    part = Part(known.bags[test], data.row_names, known.y[test].astype(float), truth)
    return Split({"label": (known.bags[train], known.y[train])}, (part,))


def fold_of_bags(place: Place, y: NDArray[Any], n_folds: int) -> Ints:
    """(B,) the fold in which each bag is tested."""
    stored = stored_array(place.folder, place.data, "folds")
    if stored is not None and place.repeat < len(stored):
        return np.asarray(stored[place.repeat], dtype=np.int64)
    fold = np.empty(len(y), dtype=np.int64)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=place.repeat_seed)
    for number, (_, test) in enumerate(splitter.split(y, y)):
        fold[test] = number
    return fold


def stratified_test(y: NDArray[Any], share: float, seed: int) -> NDArray[np.bool_]:
    """Bags to test: the share of every class, rounded."""
    random = np.random.default_rng(seed)
    chosen = np.zeros(len(y), dtype=bool)
    for value in np.unique(y):
        members = np.flatnonzero(y == value)
        chosen[random.choice(members, round(share * len(members)), replace=False)] = True
    return chosen


# ---------------------------------------------------------------- several labels per bag


@dataclass(frozen=True)
class RandomHalves:
    """Half the bags learn, half are tested, drawn anew in every repeat; one label column per class of the instances.

    Instances without a label are removed first, and bag labels are recomputed from those left. Draws in which a class
    is missing from one half are made again: nothing can be learned or measured there.
    """

    folds: int = 1

    def split(self, place: Place) -> Split:
        """All classes of the data set at once."""
        bags, classes, one_hot = labelled_instances(place)
        y = np.maximum.reduceat(one_hot, bags.offsets[:-1])
        is_test = _half_with_every_class(y, np.random.default_rng(place.seed))
        names = place.data.row_names
        columns = [int(name.rsplit("_", 1)[1]) for name in names]
        assert set(columns) <= set(classes)
        return label_split(Known(bags, y[:, columns], one_hot[:, columns]), is_test, place.data)


def labelled_instances(place: Place) -> tuple[Bags, range, Floats]:
    """The bags without instances of unknown class, the class numbers, and (N, C) one-hot classes of the instances."""
    bags, _, instance_y = read(place.folder, place.data, "y")
    assert instance_y is not None
    keep = ~np.isnan(instance_y)
    ids = np.array(bags.ids)[bags.index[keep]]
    classes = range(int(np.nanmax(instance_y)) + 1)
    return Bags(bags.X[keep], ids), classes, (instance_y[keep][:, None] == np.array(classes)).astype(float)


def _half_with_every_class(y: Floats, random: np.random.Generator) -> NDArray[np.bool_]:
    usual = y.sum(axis=0) >= 2
    while True:
        is_test = random.permuted(np.arange(len(y)) % 2).astype(bool)
        if y[is_test][:, usual].any(axis=0).all() and y[~is_test][:, usual].any(axis=0).all():
            return is_test


# ---------------------------------------------------------------- generated data


@dataclass(frozen=True)
class RecoveryTrials:
    """Bags on a line; ``key`` "one" keeps the latent function over all trials, otherwise every trial draws its own."""

    folds: int = 1

    def split(self, place: Place) -> Split:
        """Bags with their labels; no truth, since the lengthscale is what is asked for."""
        function_seed = 0 if place.data.key == "one" else place.seed
        bags, y = recovery_bags(function_seed, place.seed)
        return Split({"label": (bags, y)}, (Part(bags, place.data.row_names),))


@dataclass(frozen=True)
class GroupTrials:
    """Groups with a fraction of positives, and with the binary label that is left of it.

    Generated groups: tested on the same instances and on those of groups drawn anew. Real bags (half learn, half are
    tested): of the class ``key``, guessed as one over the number of the bag's labels, as the paper guesses from
    annotations.
    """

    folds: int = 1

    def split(self, place: Place) -> Split:
        """Evidence "fraction" and "label" of the same groups."""
        return _guessed_split(place) if place.data.file else _generated_split(place)


def _generated_split(place: Place) -> Split:
    bags, fraction, truth = _figure(place.data, place.seed)
    fresh, _, fresh_truth = _figure(place.data, place.seed + 1)
    same_row, fresh_row = place.data.row_names
    parts = (
        Part(bags, (same_row,), None, truth.astype(float)),
        Part(fresh, (fresh_row,), None, fresh_truth.astype(float)),
    )
    return Split({"fraction": (bags, fraction), "label": (bags, (fraction > 0).astype(int))}, parts)


def _figure(data: DataSet, seed: int) -> tuple[Bags, Floats, Ints]:
    """Three groups beside a wave for figure 2, a cluster inside a diffuse mass in 75 groups for figure 3."""
    if data.key == "wave":
        return make_groups((19, 16, 20), (14, 4, 17), boundary="wave", random_state=seed)
    return make_groups(random_state=seed)


def _guessed_split(place: Place) -> Split:
    bags, _, one_hot = labelled_instances(place)
    labels = np.maximum.reduceat(one_hot, bags.offsets[:-1])
    number = int(place.data.key)
    is_test = _half_with_every_class(labels, np.random.default_rng(place.seed))
    fraction = labels[:, number] / labels.sum(axis=1)
    cut = label_split(Known(bags, labels[:, number], one_hot[:, number]), is_test, place.data)
    train, stated = cut.evidence["label"]
    return Split({"fraction": (train, fraction[~is_test]), "label": (train, stated.astype(int))}, cut.parts)


# ---------------------------------------------------------------- reading


def path_of(folder: Path, data: DataSet) -> Path:
    """The archive of a data set."""
    return folder / f"{data.file}.npz"


def check_data(folder: Path | None, sets: tuple[DataSet, ...]) -> None:
    """Every archive must be there before the work begins."""
    needed = [data.file for data in sets if data.file]
    if needed and folder is None:
        raise BagDataError("this table needs data sets: give the folder that holds them with --data DIR.")
    absent = [name for name in dict.fromkeys(needed) if folder is not None and not (folder / f"{name}.npz").is_file()]
    if absent:
        raise BagDataError(f"--data {folder}: holds no {', '.join(f'{name}.npz' for name in absent)}.")


@lru_cache(maxsize=4)
def read(folder: Path, data: DataSet, label: str) -> Known:
    """A data set, its bag labels taken from the array ``label``."""
    return Known(*read_npz(path_of(folder, data), label=label))


def stored_array(folder: Path, data: DataSet, name: str) -> NDArray[Any] | None:
    """Another array of the archive, if it is there."""
    with opened_archive(path_of(folder, data), "cannot be read as an .npz archive") as arrays:
        return arrays.get(name)
