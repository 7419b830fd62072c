"""``python -m bagwise.bench``: the command ``bagwise bench`` where only what the models need is installed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bagwise._validation import visible
from bagwise.bench.cells import Choice
from bagwise.bench.run import Plan, run
from bagwise.bench.tables import NAMES, tables_named
from bagwise.exceptions import BagwiseError


def run_from_arguments(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        only = tuple(name.strip() for name in options.only.split(",") if name.strip())
        choice = Choice(options.quick, only, options.rounds, options.repeat)
        where = tables_named(options.table), options.data, options.output
        plan = Plan(*where, choice, options.jobs, fresh=options.fresh, device=options.device)
        print(*run(plan), sep="\n")
    except KeyboardInterrupt:
        print(f"interrupted; what was finished is kept in {options.output}.", file=sys.stderr)
        return 130
    except (BagwiseError, OSError) as error:
        print(f"bagwise: {visible(error)}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bagwise.bench", description=__doc__)
    parser.add_argument("table", metavar="TABLE", help=f"{', '.join(NAMES)}, or all")
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--output", "-o", type=Path, default=Path("bench"), metavar="DIR")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--repeat", type=int, metavar="N")
    parser.add_argument("--jobs", "-j", type=int, default=2, metavar="N")
    parser.add_argument("--device", default="cpu", metavar="NAME")
    parser.add_argument("--fresh", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(run_from_arguments())
