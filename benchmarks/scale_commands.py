"""What every command of the command line costs on a Parquet table that stays in its file: CPU time and peak memory.

A model is fitted by the command line itself, learning its kernel from 3,000 rows. Every command runs in a process of
its own with ``--memory 50MB``, and its line is printed as soon as it has ended. ``fit_rows`` has the model fitted to a
smaller table of the same kind, where the question is what the other commands cost on a very large one.
Run: python -m benchmarks.scale_commands [rows,rows,...] [threads] [command,command,...|all] [fit_rows]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.scale import generate

SETTINGS = ["learn_rows=3000", "kernel=rbf", "size_effect=False", "n_inducing=100", "random_state=0"]
BY_LABEL = ["--bag", "bag", "--label", "label"]


def commands(folder, fitted):
    """Names and arguments, in the order in which they need each other's files; ``fitted`` is the table of the fit."""
    table, model = str(folder / "table.parquet"), str(folder / "cells.model")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    yield "fit", ["fit", str(fitted), *BY_LABEL, *settings, "-o", model]
    yield "predict --bags", ["predict", model, table, "--bag", "bag", "--bags", str(folder / "bags.csv")]
    yield "predict --instances", ["predict", model, table, "--bag", "bag", "--instances", str(folder / "rows.parquet")]
    yield "evaluate", ["evaluate", model, table, *BY_LABEL]
    yield "report", ["report", model, table, *BY_LABEL, "-o", str(folder / "report.html")]
    yield "suggest", ["suggest", model, table, "--bag", "bag", "-n", "5"]


def cost(arguments, threads):
    """CPU seconds, seconds by the clock and megabytes of one command."""
    own = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    began = time.perf_counter()
    run = subprocess.Popen(
        [sys.executable, "-m", "bagwise", *arguments, "--memory", "50MB"],
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit(f"bagwise {' '.join(arguments)} ended with {run.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024


def written(path, n_rows):
    """A table of about so many rows, and how many it really has."""
    generate(path, n_rows)
    return path, pq.read_metadata(path).num_rows


def main(sizes="20000,100000", threads="1", only="all", fit_rows="0"):
    print("| rows | command | CPU s | s | peak MB |\n|---:|---|---:|---:|---:|", flush=True)
    for size in map(int, sizes.split(",")):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            whole = written(folder / "table.parquet", size)
            smaller = written(folder / "fitted.parquet", int(fit_rows)) if int(fit_rows) else whole
            for name, arguments in commands(folder, smaller[0]):
                if only == "all" or name in only.split(","):
                    n_rows = (smaller if name == "fit" else whole)[1]
                    cpu, clock, peak = cost(arguments, threads)
                    print(f"| {n_rows:,} | `{name}` | {cpu:.0f} | {clock:.0f} | {peak:.0f} |", flush=True)
            page = folder / "report.html"
            if page.exists():
                print(f"size of the report: {page.stat().st_size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
