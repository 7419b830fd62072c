"""Print pip constraints that hold every requirement of pyproject.toml at its lower bound: python tools/lowest.py"""

import itertools
import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(requirement: str) -> str:
    """``name==version`` for a requirement of the form ``name>=version``, the only one that the project uses."""
    found = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"{PROJECT.name}: {requirement!r} is not of the form name>=version.")
    return "==".join(found.groups())


def main() -> None:
    """One line for everything a user installs: the dependencies, and the extras but for the developers' tools."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = {name: needed for name, needed in project["optional-dependencies"].items() if name != "dev"}
    for requirement in itertools.chain(project["dependencies"], *extras.values()):
        print(lowest(requirement))


if __name__ == "__main__":
    main()
