"""Where each model wins: every model on every data set with bag labels, by cross-validation over bags.

Measure:   python -m benchmarks.where --jobs 2 --repeats 1 --out FOLDER [--data DIR | --packed DIR]
Pack data: python -m benchmarks.where --pack DIR [--data DIR]      a few megabytes that another machine can measure on
Page:      python -m benchmarks.where --out FOLDER --page docs/where_each_model_wins.md

A run that was stopped goes on with the same command: every finished cell is one line of FOLDER/where.jsonl.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from bagwise._files import alone_in
from bagwise.bench.cells import Choice, cells_of
from bagwise.bench.crew import make_crew
from bagwise.bench.progress import Clock, Progress
from bagwise.bench.run import work_through
from bagwise.bench.store import Store
from benchmarks.where.page import write_page
from benchmarks.where.sets import pack, sources
from benchmarks.where.table import InOrder, dealt, measure_in_time, sizes_of, where_table

DATA = Path(__file__).parents[3] / "shared" / "data"
RESULTS = "where.jsonl"


def parser():
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--data", type=Path, default=DATA, help="folder with the data sets (.npz archives)")
    found.add_argument(
        "--pack", type=Path, metavar="DIR", help="write the data sets, ready to be measured on, and stop"
    )
    found.add_argument("--packed", type=Path, metavar="DIR", help="read them from there; default: FOLDER/data")
    found.add_argument("--out", type=Path, default=Path("where"), metavar="FOLDER", help="results go there")
    found.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    found.add_argument("--repeats", type=int, default=1)
    found.add_argument("--folds", type=int, default=5)
    found.add_argument(
        "--limit", type=float, default=150.0, help="seconds of processor time after which a cell counts as failed"
    )
    found.add_argument("--only", default="", metavar="NAME,...", help="only these models and data sets")
    found.add_argument("--again", action="store_true", help="measure cells that failed or took too long again")
    found.add_argument("--page", type=Path, metavar="FILE", help="put tables and pictures of FOLDER into this page")
    return found


def main(arguments):
    options = parser().parse_args(arguments)
    if options.pack is not None:
        print(f"{pack(options.data, options.pack):.1f} MB in {options.pack}")
    elif options.page is not None:
        write_page(options.out / RESULTS, options.page)
    else:
        measure(options)


def measure(options):
    folder = options.packed
    if folder is None:
        folder = options.out / "data"
        pack(options.data, folder)
    sets = sources(folder)
    table = where_table(sets, options.folds)
    choice = Choice(only=tuple(filter(None, options.only.split(","))), rounds=options.repeats)
    options.out.mkdir(parents=True, exist_ok=True)
    with alone_in(options.out, "benchmarks.where"):
        store = Store(options.out / RESULTS)
        cells = cells_of(table, choice)
        pending = [cell for cell in cells if is_pending(cell, store, options.again)]
        run(dealt(pending, sizes_of(folder, sets)), len(cells) - len(pending), store, folder, options)


def is_pending(cell, store, again):
    """Whether it was never measured with these settings; with ``again``, or failed."""
    record = store.records.get(cell.key)
    return record is None or record["fingerprint"] != cell.fingerprint or (again and record["error"] is not None)


def run(cells, n_before, store, folder, options):
    if not cells:
        return
    crew = make_crew(partial(measure_in_time, seconds=options.limit), folder.resolve(), options.jobs, None)
    try:
        with Progress(len(cells), n_before, Clock(cells, crew.n_lanes)) as progress:
            for cell, record, seconds in work_through(InOrder(cells), crew):
                store.add(record)
                progress.finished(cell, record, seconds)
    finally:
        crew.close()


if __name__ == "__main__":
    main(sys.argv[1:])
