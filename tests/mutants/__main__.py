"""``make mutants``: plant bugs one by one in a copy of the tree, and see whether the tests notice them.

    python -m tests.mutants                      # all of them
    python -m tests.mutants --only special.py gp/    # those whose file or description holds one of these texts
    python -m tests.mutants --list

The tests are run without any bug first: those that fail then can catch none. A bug is caught if one of the tests named
beside it fails. The exit status is 1 if fewer than 95 % are caught.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import SOURCES, Mutant, MutantError
from tests.mutants.run import TOO_LONG, preload, run_tests

ROOT = Path(__file__).parents[2]
SHARE = 0.95  # of the mutants must be caught
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "demo", "build", "fuzz_failures")
CAUGHT, SURVIVED, TOO_SLOW, UNSOUND = "caught", "SURVIVED", "TOO SLOW", "UNSOUND"
_OUTCOMES = {0: SURVIVED, 1: CAUGHT, TOO_LONG: TOO_SLOW}  # by the exit status of pytest


def main(arguments: Sequence[str] | None = None) -> int:
    """Go through the mutants; the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if any(text in mutant.name for text in options.only)]
    if options.list:
        print("\n".join(mutant.name for mutant in chosen))
        return 0
    preload()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
        unsound = unsound_tests(tree, chosen)
        outcomes = [_told(mutant, tree, mutant.tests not in unsound) for mutant in chosen]
    return summary(chosen, outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Plant bugs and run the tests.")
    parser.add_argument("--only", nargs="+", default=[""], help="texts in the names of the mutants to plant")
    parser.add_argument("--list", action="store_true", help="tell the mutants and plant none")
    return parser


def unsound_tests(tree: Path, mutants: Sequence[Mutant]) -> set[str]:
    """Tests that do not pass as the tree is, without any mutant; every mutant must fit its file."""
    for mutant in mutants:
        mutant.planted(tree)
    unsound = set()
    for tests, paths in {mutant.tests: mutant.test_paths for mutant in mutants}.items():
        status, output = run_tests(tree, paths)
        if status != 0:
            print(f"{UNSOUND}: {tests} does not pass without any mutant:\n{output[-2000:]}", flush=True)
            unsound.add(tests)
    return unsound


def _told(mutant: Mutant, tree: Path, sound: bool) -> str:
    start = time.monotonic()
    outcome = outcome_of(mutant, tree) if sound else UNSOUND
    print(f"{outcome:<9} {time.monotonic() - start:5.1f} s  {mutant.name}", flush=True)
    return outcome


def outcome_of(mutant: Mutant, tree: Path) -> str:
    """Plant the mutant, run its tests, and take it out again."""
    path = tree / SOURCES / mutant.file
    sound = path.read_text()
    path.write_text(mutant.planted(tree))
    try:
        status, output = run_tests(tree, mutant.test_paths, "-x")
    finally:
        path.write_text(sound)
    if status not in _OUTCOMES:
        raise MutantError(f"{mutant.name}: its tests cannot be run (pytest ended with {status}):\n{output[-3000:]}")
    return _OUTCOMES[status]


def summary(mutants: Sequence[Mutant], outcomes: Sequence[str]) -> int:
    """Tell how many were caught and which were not; the exit status."""
    missed = [
        f"{outcome}: {mutant.name}" for mutant, outcome in zip(mutants, outcomes, strict=True) if outcome != CAUGHT
    ]
    share = 1.0 - len(missed) / max(1, len(mutants))
    print("\n".join(["", *missed, f"{len(mutants) - len(missed)} of {len(mutants)} mutants caught ({share:.1%})"]))
    return 0 if share >= SHARE else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MutantError as error:
        sys.exit(str(error))
