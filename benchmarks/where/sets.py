"""The data sets with bag labels, made ready once: two classes, at most so many bags, text as components, float32."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from bagwise import Bags
from bagwise.bench.cells import seed_of
from bagwise.bench.description import DataSet
from bagwise.datasets import read_npz
from bagwise.io.npz import write_npz

MOST_BAGS = 600
TEXT_COMPONENTS = 200


@dataclass(frozen=True)
class Source:
    """An archive of the data folder. ``family`` are sets of one kind; ``label`` names the array of bag labels."""

    name: str
    family: str
    label: str = "y"

    @property
    def data(self):
        return DataSet(self.name, self.name)


_FAMILIES = {
    "molecules": "musk1 musk2",
    "images": "tiger elephant fox corel2000 msrcv2_rebuilt_bags",
    "text": "trec9_tst1 trec9_tst2 trec9_tst3 trec9_tst4 trec9_tst7",
    "tables": "uci_adult_12 uci_adult_210 uci_diabetes_12 uci_diabetes_13 uci_diabetes_23 uci_spam_12 uci_spam_210",
    "sound and letters": "hja_birdsong letter_frost_rebuilt",
    "newsgroups": "newsgroups_*",
}
DRUGS = tuple(Source(name, "molecules", "y_bin") for name in ("drug_lj_160_166_1", "drug_lj_16_30_2"))


def sources(folder):
    """Those that the folder holds, in a fixed order."""
    named = [(path, family) for family, names in _FAMILIES.items() for path in _paths(folder, names)]
    there = [Source(path.stem, family) for path, family in named]
    return [*there, *(drug for drug in DRUGS if (folder / f"{drug.name}.npz").is_file())]


def _paths(folder, names):
    return [path for pattern in names.split() for path in sorted(folder.glob(f"{pattern}.npz"))]


def pack(data, folder):
    """Write every data set, ready to be measured on, into the folder; those that are there stay. Megabytes in all."""
    found = sources(Path(data))
    if not found:
        raise SystemExit(f"{data}: holds none of the data sets; name their folder with --data.")
    folder.mkdir(parents=True, exist_ok=True)
    for source in found:
        path = folder / f"{source.name}.npz"
        if not path.is_file():
            write_npz(path, *ready(Path(data) / path.name, source))
    return sum(path.stat().st_size for path in folder.glob("*.npz")) / 2**20


def ready(path, source):
    """Bags, labels of 0 and 1, labels of the instances (or None)."""
    bags, y, instance_y = read_npz(path, label=source.label)
    y, instance_y = two_classes(y, instance_y)
    chosen = some_bags(y, seed_of(source.name))
    rows = np.isin(bags.index, chosen)
    truth = None if instance_y is None else instance_y[rows]
    kept = bags[chosen]
    X = components(kept.X) if source.family == "text" else kept.X
    return Bags(np.asarray(X, dtype=np.float32), kept.index), y[chosen], truth


def two_classes(y, instance_y):
    """Labels as they are where they are binary; else the class that the most bags have, against all others."""
    if y.ndim == 1 and len(np.unique(y)) == 2:
        return y.astype(np.int8), instance_y
    table = y if y.ndim == 2 else y[:, None] == np.unique(y)
    number = int(np.argmax(table.sum(axis=0)))
    of_class = None if instance_y is None else np.where(np.isnan(instance_y), np.nan, instance_y == number)
    return (table[:, number] > 0).astype(np.int8), of_class


def some_bags(y, seed):
    """Numbers of all bags, or of MOST_BAGS of them drawn with the shares of both classes, in their order."""
    if len(y) <= MOST_BAGS:
        return np.arange(len(y))
    random = np.random.default_rng(seed)
    parts = [np.flatnonzero(y == value) for value in (0, 1)]
    drawn = [random.choice(part, round(MOST_BAGS * len(part) / len(y)), replace=False) for part in parts]
    return np.sort(np.concatenate(drawn))


def components(X):
    """Leading singular components of passages of length one, scaled by one factor to a mean variance of 1."""
    words = normalize(scipy.sparse.csr_matrix(X, dtype=np.float64))
    found = TruncatedSVD(TEXT_COMPONENTS, random_state=0).fit_transform(words)
    return found / np.sqrt(found.var(axis=0).mean())


def spoken_name(name):
    """As it stands in a table."""
    return re.sub(r"^newsgroups_|_rebuilt(_bags)?$", "", name)


def family_of(name):
    """The family of a data set."""
    known = {stem: family for family, names in _FAMILIES.items() for stem in names.split()}
    return known.get(name, "newsgroups" if name.startswith("newsgroups_") else "molecules")
