"""How long the command line takes to answer where nothing has to be computed.

    python -m benchmarks.start_up [runs]

Every command is run several times in a new process. The shortest processor time counts, because a busy machine can only
make a process slower. Times are also given as a ratio to a process that imports Typer, which every command needs; a
ratio above 3 ends the program with status 1.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

LARGEST_RATIO = 3.0
EMPTY = """
import typer
from pathlib import Path
app = typer.Typer(add_completion=False)
@app.command()
def fit(data: Path, bag: str = ""):
    raise typer.Exit(2)
app()
"""


def commands(folder):
    table = Path(folder) / "slides.csv"
    table.write_text("slide,area,tumour\nA,0.5,1\nB,0.1,0\n")
    bagwise = [sys.executable, "-m", "bagwise"]
    return {
        "import typer": [sys.executable, "-c", "import typer"],
        "a Typer command, empty": [sys.executable, "-c", EMPTY, "fit.csv"],
        "--help": [*bagwise, "--help"],
        "--version": [*bagwise, "--version"],
        "models": [*bagwise, "models"],
        "a mistyped column": [*bagwise, "fit", str(table), "--bag", "slid", "--label", "tumour", "-o", f"{folder}/m"],
        "import bagwise": [sys.executable, "-c", "import bagwise"],
    }


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == (2 if "fit" in command or EMPTY in command else 0), done.stderr.decode()
    return taken


def main(runs="10"):
    with tempfile.TemporaryDirectory() as folder:
        all_commands = commands(folder)
        rounds = [{name: seconds(command) for name, command in all_commands.items()} for _ in range(int(runs))]
    shortest = {name: min(times[name] for times in rounds) for name in all_commands}
    ratios = {name: taken / shortest["import typer"] for name, taken in shortest.items()}
    for name, taken in shortest.items():
        print(f"{name:28s} {taken:6.3f} s   ratio {ratios[name]:5.2f}")
    return int(any(ratios[name] > LARGEST_RATIO for name in ("--help", "--version", "models", "a mistyped column")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
