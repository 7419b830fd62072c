"""One description per table. A table is known by being here."""

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from bagwise.exceptions import BagDataError

if TYPE_CHECKING:
    from bagwise.bench.description import Table

    TABLES: dict[str, Table]

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))


def tables_named(name: str) -> "tuple[Table, ...]":
    """The table of this name, or all of them for "all"."""
    if name == "all":
        return tuple(_tables().values())
    if name not in NAMES:
        raise BagDataError(f"{name}: there is no such table; there are {', '.join(NAMES)}, and all.")
    return (_tables()[name],)


@functools.cache
def _tables() -> "dict[str, Table]":
    return {name: importlib.import_module(f"{__name__}.{name}").TABLE for name in NAMES}


def __getattr__(name: str) -> Any:
    """``TABLES``, every description by its name, is made when first asked for: the command line needs only NAMES."""
    if name != "TABLES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _tables()
