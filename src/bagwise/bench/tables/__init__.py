"""One description per table. A table is known by being here."""

import importlib
import pkgutil

from bagwise.bench.description import Table
from bagwise.exceptions import BagDataError

TABLES: dict[str, Table] = {
    found.name: found
    for module in pkgutil.iter_modules(__path__)
    for found in [importlib.import_module(f"{__name__}.{module.name}").TABLE]
}
NAMES = tuple(TABLES)


def tables_named(name: str) -> tuple[Table, ...]:
    """The table of this name, or all of them for "all"."""
    if name == "all":
        return tuple(TABLES.values())
    if name not in TABLES:
        raise BagDataError(f"{name}: there is no such table; there are {', '.join(NAMES)}, and all.")
    return (TABLES[name],)
