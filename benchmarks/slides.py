"""A folder of h5 files: memory and time of a fit, and the time of the maps of a large slide.

Files have ``features`` in half precision and ``coords``. As with the networks that make such features, a few factors
lie behind all of them; one slide in two has some tiles with another value of one factor. The fit runs in a process of
its own, so that its peak memory is its own. It may hold ``memory`` of rows and features; the rest stays in files.
Seconds are CPU seconds. Run: python -m benchmarks.slides [files] [tiles] [features] [memory]
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import torch
from typer.testing import CliRunner

import bagwise
from bagwise import BagGP, Bags
from bagwise.cli.app import app

POSITIVE = 20  # tiles of a positive slide
FACTORS, NOISE = 12, 0.5
LARGE = 20_000  # tiles of the slide that is drawn


def write_slide(path, n_tiles, n_features, positive, random):
    factors = random.standard_normal((n_tiles, FACTORS), dtype=np.float32)
    factors[: POSITIVE * positive, 0] += 4.0
    loadings = np.random.default_rng(0).standard_normal((FACTORS, n_features), dtype=np.float32)
    X = factors @ loadings + NOISE * random.standard_normal((n_tiles, n_features), dtype=np.float32)
    side = int(np.ceil(np.sqrt(n_tiles)))
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)[:n_tiles] * 256
    with h5py.File(path, "w") as file:
        file["features"] = X.astype(np.float16)
        file.create_dataset("coords", data=places).attrs["patch_size"] = 256


def generate(folder, n_files, n_tiles, n_features):
    """The files, and their table."""
    random = np.random.default_rng(0)
    names = [f"{number:04d}" for number in range(n_files)]
    for number, name in enumerate(names):
        write_slide(folder / f"{name}.h5", n_tiles, n_features, number % 2, random)
    pd.DataFrame({"slide_id": names, "tumour": np.arange(n_files) % 2}).to_csv(folder / "slides.csv", index=False)


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fit(folder, memory, model_file):
    """Seconds and peak megabytes of reading and fitting."""
    torch.set_num_threads(1)
    before, started = peak_megabytes(), time.process_time()
    with bagwise.scale.within(memory=memory, threads=1):
        bags, y = Bags.from_folder(folder, folder / "slides.csv", label="tumour")
        read = time.process_time() - started
        model = BagGP(kernel="rbf", n_inducing=50, random_state=0).fit(bags, y)
    model.save(model_file)
    made = time.process_time() - started - read
    peak = peak_megabytes()
    right = (model.predict(bags) == y).mean()
    engine = f"inference {model.inference_}, {model.n_iter_} rounds, {right:.0%} of the bags right"
    return repr(bags), bags.stays_in_file, read, made, before, peak, engine


def draw(folder, model_file, n_features):
    """Seconds of the three files of a map, everything loaded before."""
    write_slide(folder / "large.h5", LARGE, n_features, 1, np.random.default_rng(1))
    command = ["heatmap", str(model_file), str(folder / "large.h5"), "-o", str(folder / "maps")]
    CliRunner().invoke(app, ["heatmap", str(model_file), str(folder / "0000.h5"), "-o", str(folder / "maps")])
    started = time.process_time()
    assert CliRunner().invoke(app, command).exit_code == 0
    sizes = {path.suffix: path.stat().st_size / 1e6 for path in (folder / "maps").glob("large.*")}
    return time.process_time() - started, sizes


def main(n_files=500, n_tiles=2000, n_features=256, memory="500MB"):
    with tempfile.TemporaryDirectory() as made:
        folder, model_file = Path(made), Path(made) / "model"
        generate(folder, int(n_files), int(n_tiles), int(n_features))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            shown, in_file, read, fitted, before, peak, engine = pool.apply(fit, (folder, memory, model_file))
        print(f"{shown}{', rows stay in their files' if in_file else ''}; memory={memory}; {engine}")
        print(f"read {read:.0f} s, fit {fitted:.0f} s, peak {peak:.0f} MB (imports {before:.0f} MB)")
        seconds, sizes = draw(folder, model_file, int(n_features))
        listed = ", ".join(f"{suffix} {size:.1f} MB" for suffix, size in sorted(sizes.items()))
        print(f"maps of {LARGE:,} tiles: {seconds:.1f} s ({listed})")


if __name__ == "__main__":
    main(*sys.argv[1:])
