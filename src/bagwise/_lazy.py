"""Packages whose names are imported when they are first asked for (PEP 562).

PyTorch and scikit-learn take seconds to import. A command that only prints its help, or refuses a mistyped column,
should not wait for them.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_names(
    package: str, where: Mapping[str, str], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    ``where`` says which module defines a name; ``submodules`` are modules of the package that can be had as its
    attributes without importing them first.
    """
    home, modules = sys.modules[package], frozenset(submodules)

    def find(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(where[name]), name)
        setattr(home, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(home), *where, *modules})

    return find, names
