"""Valid files to spoil: tables, archives and model files of one small problem."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse

import bagwise
from bagwise import Bags, MILGPProbit
from bagwise.datasets import make_bags
from bagwise.io import write_npz, write_table

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "schema1").glob("*.safetensors"))
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".arrow")


@dataclass(frozen=True)
class Seeds:
    """Paths of valid files by kind, and a model and a table to use beside a spoilt one."""

    tables: list[Path]
    archives: list[Path]
    bags: list[Path]
    models: list[Path]
    model: Path  # fitted to the table
    plain_model: Path  # the same, without names of features, for archives
    plain_data: Path  # an archive without names of features

    @property
    def of_kind(self) -> dict[str, list[Path]]:
        """Files by kind."""
        return {"table": self.tables, "archive": self.archives, "bags": self.bags, "model": self.models}


def make_seeds(folder: Path) -> Seeds:
    """Write them into a folder."""
    bags, y, instance_y = make_bags(10, (1, 4), 2, random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"])
    frame["bag"] = [f"b{number}" for number in bags.index]
    frame["y"], frame["seen"] = y[bags.index], np.where(np.arange(len(frame)) % 5, np.nan, instance_y)
    tables = [folder / f"table{suffix}" for suffix in SUFFIXES]
    for path in tables:
        write_table(frame, path)
    named = Bags.from_frame(frame, "bag", features=["u", "v"])
    write_npz(folder / "dense.npz", named, y, instance_y)
    write_npz(folder / "sparse.npz", Bags(scipy.sparse.csr_matrix(bags.X), bags.index), y)
    np.savez(
        folder / "text.npz",
        X=bags.X.astype(np.float32),
        bag=frame["bag"].to_numpy(dtype=str),
        y=np.array(list("nyynynynyn")),
    )
    whole = Bags(
        named.X,
        frame["bag"],
        feature_names=["u", "v"],
        known=frame["seen"],
        part=[f"{name}-{number % 2}" for number, name in enumerate(frame["bag"])],
        meta={"text": frame["bag"], "number": np.arange(len(frame))},
    )
    whole.with_group(y).save(folder / "saved.npz")
    settings = {"n_inducing": 5, "max_iter": 2, "random_state": 0}
    fitted = MILGPProbit(**settings).fit(named, y)
    fitted.columns_ = {"bag": "bag", "known": None, "label": ["y"], "arrays": []}
    fitted.save(folder / "fitted.model")
    MILGPProbit(**settings).fit(bags, y).save(folder / "plain.model")
    write_npz(folder / "plain.npz", bags, y, instance_y)
    models = [folder / "fitted.model"]
    for path in FIXTURES:
        models.append(folder / f"{path.stem}.model")
        bagwise.load(path).save(models[-1])
    archives = [folder / "dense.npz", folder / "sparse.npz", folder / "text.npz"]
    plain = (folder / "plain.model", folder / "plain.npz")
    return Seeds(tables, archives, [folder / "saved.npz"], models, folder / "fitted.model", *plain)
