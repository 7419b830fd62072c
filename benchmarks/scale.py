"""Bags that stay in a Parquet file: time and memory of fit and predict as the table grows.

Every size runs in a process of its own, so that its peak memory is its own. Features are never held in memory
(``memory=0``), so small tables show what large ones do. What is measured is printed at once; the table comes last.
Run: python -m benchmarks.scale [rows,rows,...] [threads] [learn_rows]
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.metrics import roc_auc_score

import bagwise
from bagwise import BagGP, Bags
from bagwise.inference.chunks import InMemory
from bagwise.inference.mean_field import pull_step
from bagwise.inference.places import Spilled
from bagwise.io.streamed import instance_tables, write_parts

D, R = 64, 100
FACTORS, NOISE = 6, 0.3  # what lies behind the features, and what each has of its own
SMALLEST, LARGEST = 20, 2000
ROW_GROUP = 65_536


def generate(path, n_rows, seed=0, first_bag=0):
    """A table of bags of 20 to 2,000 rows; a bag with a row whose first factor is very large is positive."""
    loadings = np.random.default_rng(0).standard_normal((FACTORS, D), dtype=np.float32)  # the same in every file
    random = np.random.default_rng([seed, 1])
    names = [f"x{number}" for number in range(D)]
    schema = pa.schema([("bag", pa.int64()), ("label", pa.int8()), *((name, pa.float32()) for name in names)])
    made, bag = 0, first_bag
    with pq.ParquetWriter(path, schema) as writer:
        while made < n_rows:
            sizes = np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST), 200)).astype(int)
            factors = random.standard_normal((sizes.sum(), FACTORS), dtype=np.float32)
            X = factors @ loadings + NOISE * random.standard_normal((sizes.sum(), D), dtype=np.float32)
            owners = np.repeat(np.arange(len(sizes)), sizes)
            positive = np.bincount(owners, factors[:, 0] > 3.3) > 0
            columns = [bag + owners, positive[owners].astype(np.int8), *X.T]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=ROW_GROUP)
            made, bag = made + len(X), bag + len(sizes)


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Laps:
    """CPU seconds and seconds by the clock of one part after the other, printed as soon as they are known."""

    def __init__(self):
        self.cpu, self.clock = {}, {}
        self._start()

    def _start(self):
        self._began = time.process_time(), time.perf_counter()

    def end(self, name):
        """Of one part; the next begins."""
        self.cpu[name], self.clock[name] = time.process_time() - self._began[0], time.perf_counter() - self._began[1]
        say(f"{name}: {self.cpu[name]:.1f} CPU s, {self.clock[name]:.1f} s by the clock, {peak_megabytes():.0f} MB")
        self._start()


def say(text):
    print(f"  [{time.strftime('%H:%M:%S')}] {text}", flush=True)


def _tell(number, value):
    if number % 10 == 1:
        say(f"iteration {number}, log evidence {value:.2f}")


def measure(path, threads, learn_rows):
    """Seconds and megabytes of every part of the job."""
    torch.set_num_threads(threads)
    laps = Laps()
    bags, y = Bags.open(path, "bag", label="label")
    laps.end(f"open {bags.n_instances:,} rows")
    before = peak_megabytes()
    with bagwise.scale.within(memory=0, threads=threads):
        settings = {"kernel": "rbf", "size_effect": False, "n_inducing": R, "random_state": 0}
        model = BagGP(**settings, learn_rows=learn_rows, callback=_tell).fit(bags, y)
    laps.end("fit")
    with tempfile.TemporaryDirectory() as folder:
        write_parts(instance_tables(model, bags), Path(folder) / "out.parquet")
        laps.end("predict")
        peak = peak_megabytes()
        auc = auc_of_bags(pq.read_table(Path(folder) / "out.parquet", columns=["bag", "probability"]), y)
    found = {"rows": bags.n_instances, "bags": len(bags), "before": before, "peak": peak, "auc": auc}
    found |= {"cpu": laps.cpu, "clock": laps.clock, "iterations": model.n_iter_}
    laps.end("AUC")
    found["sweep"] = sweep_ratio(model, bags, y)
    laps.end("sweep and bare products")
    return found


def auc_of_bags(table, y):
    """How well the most probable instance of every bag ranks the bags: whether anything was learned at all."""
    largest = table.group_by("bag", use_threads=False).aggregate([("probability", "max")])
    return roc_auc_score(y, largest["probability_max"].to_numpy())


def sweep_ratio(model, bags, y):
    """A sweep of the mean field over features in a file, and the bare reads and products of the same file."""
    from bagwise.bag_models.counts import ProbitCounts
    from bagwise.evidence.counts import CountEvidence
    from bagwise.inference.chunks import chunks_as_made

    evidence = ProbitCounts(CountEvidence(y[:, None].astype(float), bags.sizes))
    spilled = Spilled(chunks_as_made(model.features_, bags, evidence))
    mean = torch.zeros(model.features_.n_columns, 1, dtype=torch.float64)
    chunks = InMemory(spilled)
    times = {"sweep": [], "bare": []}
    for _ in range(3):
        start = time.process_time()
        chunks.sweep(pull_step, mean)
        times["sweep"].append(time.process_time() - start)
        start = time.process_time()
        for chunk in spilled:
            chunk.design.phi.T @ (chunk.design.phi @ mean)
        times["bare"].append(time.process_time() - start)
    return min(times["sweep"]), min(times["bare"])


def in_a_process(function, *arguments):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


HEAD = """
| rows | bags | rounds | fit CPU s | predict CPU s | fit s | predict s | before fit MB | peak MB | sweep / bare | AUC |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def line(got):
    """Of the table."""
    seconds = " | ".join(f"{of[name]:.1f}" for of in (got["cpu"], got["clock"]) for name in ("fit", "predict"))
    sweep, bare = got["sweep"]
    return (
        f"| {got['rows']:,} | {got['bags']:,} | {got['iterations']} | {seconds} | {got['before']:.0f} | "
        f"{got['peak']:.0f} | {sweep / bare:.2f} | {got['auc']:.2f} |"
    )


def main(sizes="100000,200000,400000", threads=1, learn_rows=3_000):
    threads, learn_rows = int(threads), None if str(learn_rows) == "none" else int(learn_rows)
    print(
        f"D = {D}, R = {R}, bags of {SMALLEST} to {LARGEST}, {threads} thread(s), learn_rows={learn_rows}", flush=True
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, sizes.split(",")):
            path = Path(folder) / "table.parquet"
            in_a_process(generate, path, size)
            say(f"about {size:,} rows written")
            found.append(in_a_process(measure, path, threads, learn_rows))
            print(HEAD, *map(line, found), sep="\n", flush=True)
    if len(found) > 1:
        for kind in ("cpu", "clock"):
            seconds = [got[kind]["fit"] + got[kind]["predict"] for got in found]
            exponent = np.polyfit(np.log([got["rows"] for got in found]), np.log(seconds), 1)[0]
            print(f"fit and predict grow as rows^{exponent:.2f} ({kind})")


if __name__ == "__main__":
    main(*sys.argv[1:])
