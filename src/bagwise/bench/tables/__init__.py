"""One description per table. A table is known by being here."""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from bagwise.exceptions import BagDataError

if TYPE_CHECKING:
    from bagwise.bench.description import Table

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))


def tables_named(name: str) -> "tuple[Table, ...]":
    """The table of this name, or all of them for "all"."""
    if name == "all":
        return tuple(map(_table, NAMES))
    if name not in NAMES:
        raise BagDataError(f"{name}: there is no such table; there are {', '.join(NAMES)}, and all.")
    return (_table(name),)


def _table(name: str) -> "Table":
    found: Table = importlib.import_module(f"{__name__}.{name}").TABLE
    return found
