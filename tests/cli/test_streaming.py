"""The commands on a table that stays in its file write what they write of a table in memory."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused

FIT = ("--bag", "slide", "--label", "label", "--ignore", "truth")
SETTINGS = ("--set", "learn=false", "--set", "n_inducing=8", "--set", "random_state=0", "--set", "verbose=0")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(2)
    sizes = random.integers(2, 9, 30)
    X = random.standard_normal((sizes.sum(), 3))
    slide = np.repeat([f"s{n}" for n in range(30)], sizes)
    truth = (X[:, 0] > 1.2).astype(int)
    frame = pd.DataFrame(X, columns=list("abc")).assign(slide=slide, truth=truth)
    frame["label"] = frame.groupby("slide")["truth"].transform("max")
    frame.to_parquet(folder / "t.parquet", row_group_size=40)
    done("fit", folder / "t.parquet", *FIT, *SETTINGS, "-o", folder / "whole.model")
    return folder


def test_cli_fit_streams_to_the_same_model(made, monkeypatch):
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", 25)
    done("fit", made / "t.parquet", *FIT, *SETTINGS, "--memory", "1KB", "--cache", made, "-o", made / "small.model")
    for name in ("whole", "small"):
        done("predict", made / f"{name}.model", made / "t.parquet", "--bags", made / f"{name}.csv")
    whole, small = (pd.read_csv(made / f"{name}.csv") for name in ("whole", "small"))
    pd.testing.assert_frame_equal(whole, small, rtol=0, atol=1e-10)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "arrow"])
def test_cli_predict_streams_the_same_tables(made, monkeypatch, suffix):
    monkeypatch.setattr("bagwise.io.streamed._ROWS", 30)
    read = {"parquet": pd.read_parquet, "arrow": pd.read_feather}.get(suffix, pd.read_csv)
    for name, memory in (("a", "1GB"), ("b", "1KB")):
        instances, bags = made / f"{name}-i.{suffix}", made / f"{name}-b.{suffix}"
        done(
            "predict",
            made / "whole.model",
            made / "t.parquet",
            "--instances",
            instances,
            "--bags",
            bags,
            "--memory",
            memory,
        )
    for kind in "ib":
        pd.testing.assert_frame_equal(read(made / f"a-{kind}.{suffix}"), read(made / f"b-{kind}.{suffix}"), atol=1e-12)


def test_cli_evaluate_suggest_and_report_take_a_table_that_stays_in_its_file(made):
    for name, memory in (("a", "1GB"), ("b", "1KB")):
        shared = (made / "whole.model", made / "t.parquet", "--memory", memory)
        done("evaluate", *shared, "--instance-label", "truth", "--json", made / f"{name}.json")
        done("suggest", *shared, "-n", 4, "-o", made / f"{name}.csv")
        done("suggest", *shared, "-n", 4, "--what", "instances", "-o", made / f"{name}-i.csv")
    whole, small = (json.loads((made / f"{name}.json").read_text()) for name in "ab")
    assert whole.keys() == small.keys()
    for part in ("bags", "instances"):
        assert small[part] == pytest.approx(whole[part], abs=1e-9)
    for suffix in (".csv", "-i.csv"):
        pd.testing.assert_frame_equal(pd.read_csv(made / f"a{suffix}"), pd.read_csv(made / f"b{suffix}"), atol=1e-9)
    done("report", *shared, "-o", made / "b.html", "--image-shape", "1,3")
    assert (made / "b.html").stat().st_size < 3e6


def test_cli_reads_a_folder_of_parquet_files(made, tmp_path):
    frame = pd.read_parquet(made / "t.parquet")
    for number, part in enumerate((frame.iloc[:70], frame.iloc[70:])):
        part.to_parquet(tmp_path / f"{number}.parquet")
    for name, data in (("one", made / "t.parquet"), ("two", tmp_path)):
        done("predict", made / "whole.model", data, "--bags", made / f"{name}.csv")
    assert (made / "one.csv").read_bytes() == (made / "two.csv").read_bytes()


def test_cli_refuses_a_size_that_is_none(made):
    assert "memory='lots'" in refused("predict", made / "whole.model", made / "t.parquet", "--memory", "lots")


def test_cli_parts_and_metadata_of_a_table_that_stays_in_its_file_are_answered_for_alike(made, tmp_path):
    frame = pd.read_parquet(made / "t.parquet")
    frame["part"] = frame["slide"] + "-" + (frame.groupby("slide").cumcount() // 3).astype(str)
    frame.assign(page=np.arange(len(frame))).to_parquet(tmp_path / "parts.parquet")
    for memory in ("1GB", "1KB"):
        outputs = [f for what in ("parts", "instances") for f in (f"--{what}", tmp_path / f"{memory}-{what}.csv")]
        extra = ("--part", "part", "--meta", "page", "--memory", memory)
        done("predict", made / "whole.model", tmp_path / "parts.parquet", *extra, *outputs)
    for what in ("parts", "instances"):
        whole, stored = (pd.read_csv(tmp_path / f"{memory}-{what}.csv") for memory in ("1GB", "1KB"))
        assert {"bag", "part"} <= set(stored)
        pd.testing.assert_frame_equal(whole, stored, atol=1e-12)
