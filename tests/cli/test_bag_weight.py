"""``fit --bag-weight``: the model of ``fit(bags, y, sample_weight=...)``, from tables, stored tables and folders."""

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from tests.cli.command import done, refused

from bagwise import Bags, MILGPProbit, load

SETTINGS = {"random_state": 0, "max_iter": 2, "n_inducing": 6}
OPTIONS = ("--model", "mil-gp-probit", *(f for name, v in SETTINGS.items() for f in ("--set", f"{name}={v}")))
WEIGHTS = np.array([2.0, 0.5, 1.0, 3.0, 1.0, 0.0])


@pytest.fixture
def frame():
    random = np.random.default_rng(0)
    index = np.repeat(np.arange(6), 4)
    return pd.DataFrame(random.standard_normal((24, 3)), columns=list("abc")).assign(
        bag=index, label=index % 2, times=WEIGHTS[index]
    )


def same(path, bags, y):
    model, expected = load(path), MILGPProbit(**SETTINGS).fit(bags, y, sample_weight=WEIGHTS)
    assert model.n_features_in_ == 3
    plain = MILGPProbit(**SETTINGS).fit(bags, y)
    assert not torch.allclose(model.posterior_.mean, plain.posterior_.mean, atol=1e-3)
    return torch.allclose(model.posterior_.mean, expected.posterior_.mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize("memory", ["1GB", "1KB"])
def test_weights_of_bags_come_from_a_column_of_the_table(frame, memory, tmp_path):
    frame.to_parquet(tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "--bag", "bag", "--label", "label", *OPTIONS, "--memory", memory)
    done(*fit, "--bag-weight", "times", "-o", tmp_path / "m")
    assert same(tmp_path / "m", *Bags.from_frame(frame, "bag", features=list("abc"), label="label"))
    done("predict", tmp_path / "m", tmp_path / "t.parquet", "--bags", tmp_path / "out.csv")


def test_weights_of_bags_come_from_the_table_of_a_folder(frame, tmp_path):
    (tmp_path / "h5").mkdir()
    for name, rows in frame.groupby("bag"):
        with h5py.File(tmp_path / "h5" / f"{name}.h5", "w") as file:
            file["features"] = rows[list("abc")].to_numpy()
    frame.drop_duplicates("bag")[["bag", "label", "times"]].to_csv(tmp_path / "t.csv", index=False)
    table = ("--table", tmp_path / "t.csv", "--bag", "bag", "--label", "label", "--bag-weight", "times")
    done("fit", tmp_path / "h5", *table, *OPTIONS, "-o", tmp_path / "m")
    assert same(tmp_path / "m", *Bags.from_folder(tmp_path / "h5", tmp_path / "t.csv", bag="bag", label="label"))


def test_weights_that_are_none_are_refused_by_name(frame, tmp_path):
    fit = ("fit", tmp_path / "t.csv", "--bag", "bag", "--label", "label", *OPTIONS, "-o", tmp_path / "m")
    for changed, message in [
        (frame.assign(times=np.arange(24)), "column 'times': the weight of bag '0' varies inside the bag"),
        (frame.assign(times=-frame["times"]), "sample_weight of bag '0' is -2"),
        (frame.assign(times="many"), "--bag-weight times: expected a number for every bag"),
    ]:
        changed.to_csv(tmp_path / "t.csv", index=False)
        assert message in refused(*fit, "--bag-weight", "times")
    both = ("--part", "a", "--part-label", "b", "--bag-weight", "times")
    assert "says nothing about its parts" in refused(*fit, *both)
