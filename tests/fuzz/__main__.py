"""``make fuzz``: thousands of spoilt tables, archives and model files; each is answered or refused, nothing else.

A worker process of bounded memory goes through the cases; case ``n`` of a seed is the same file on every machine of the
same libraries. What goes wrong is kept as a file in ``fuzz_failures/`` and told with the error.

    python -m tests.fuzz --cases 2400 --seed 0 --seconds 240
    python -m tests.fuzz --seed 0 --only 17        # that case alone, with its traceback
"""

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MEMORY = 1000  # megabytes that the worker may have in use
CASE_SECONDS = 30
COMMAND_EVERY = 20  # cases, one of which goes through the command line
FAILURES = Path("fuzz_failures")


def main() -> int:
    """Start workers until all cases are done or the time is up; the exit status."""
    options = _parser().parse_args()
    if options.worker:
        _work(options)
        return 0
    cases = [options.only] if options.only is not None else list(range(options.cases))
    told = _drive(options, cases)
    for (kind, outcome), count in sorted(Counter((case["kind"], case["outcome"]) for case in told).items()):
        print(f"{kind:>8} {outcome:<9} {count}")
    failures = [case for case in told if case["outcome"] == "failed"]
    most = max((case.get("megabytes", 0.0) for case in told), default=0.0)
    print(f"{len(told)} of {len(cases)} cases, seed {options.seed}, {len(failures)} failures, {most:.0f} MB at most")
    for failure in failures:
        print(f"\ncase {failure['case']} ({failure['kind']}), file {failure['file']}:\n{failure['error']}")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def _drive(options: argparse.Namespace, cases: list[int]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    deadline = time.monotonic() + options.seconds
    while len(told) < len(cases) and time.monotonic() < deadline:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", "--seed", str(options.seed)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            told += _watched(worker, cases[len(told) :], deadline)
            worker.kill()
    return told


def _watched(worker: Any, cases: list[int], deadline: float) -> Iterator[dict[str, Any]]:
    """Feed a worker case by case, until it dies over one or the time is up."""
    for case in cases:
        if time.monotonic() > deadline:
            return
        worker.stdin.write(f"{case}\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
        yield json.loads(line) if line else _died(case)
        if not line:
            return


def _died(case: int) -> dict[str, Any]:
    kept = next(FAILURES.glob(f"*_case{case}_*"), "none: it died before there was one")
    return {"case": case, "kind": "?", "outcome": "failed", "file": str(kept), "error": "the worker died over it"}


# ---------------------------------------------------------------- the worker


def _work(options: argparse.Namespace) -> None:
    os.environ["BAGWISE_READ_LIMIT_GB"] = "0.2"
    warnings.simplefilter("ignore")
    from tests.fuzz.seeds import make_seeds

    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints, only results go to the driver
    with tempfile.TemporaryDirectory() as folder:
        seeds = make_seeds(Path(folder))
        _limit_memory()
        for line in sys.stdin:
            told.write(json.dumps(run_case(options.seed, int(line), seeds, memory=MEMORY)) + "\n")
            told.flush()


def _limit_memory() -> None:
    """Let allocations fail that would take the process far beyond what it may use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


@contextmanager
def _in_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {CASE_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(CASE_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_case(seed: int, case: int, seeds: Any, failures: Path = FAILURES, memory: float = math.inf) -> dict[str, Any]:
    """Make a file, use it, and tell what came of it."""
    import numpy as np
    from tests.fuzz import mutations, targets

    random = np.random.default_rng([seed, case])
    kinds = seeds.of_kind
    kind = mutations.pick(random, ["table", "archive", "bags", "model", "model"])
    source = mutations.pick(random, kinds[kind])
    data = mutations.spoil(random, kind, source, [path for paths in kinds.values() for path in paths])
    kept = failures / f"seed{seed}_case{case}_{source.name}"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(data)  # now, lest this process dies over it
    told: dict[str, Any] = {"case": case, "kind": kind, "file": str(kept)}
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "in" / source.name, Path(folder) / "out" / "out.csv"
        path.parent.mkdir()
        output.parent.mkdir()
        path.write_bytes(data)
        try:
            with _in_time():
                if case % COMMAND_EVERY == 0:
                    outcome = targets.use_command(kind, path, seeds, output, case // COMMAND_EVERY)
                else:
                    outcome = targets.use(kind, path, seeds, output)
            _check_memory(memory)
        except Exception:
            return told | {"outcome": "failed", "error": traceback.format_exc()[-3000:]}
    kept.unlink()
    return told | {"outcome": outcome, "megabytes": _megabytes()}


def _check_memory(most: float) -> None:
    if _megabytes() > most:
        raise MemoryError(f"{_megabytes():.0f} MB were in use, of {most}")


def _megabytes() -> float:
    """The most that this process ever had in use."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
