"""Docstrings that are complete where they stand: a decorator adds the shared texts and the defaults to a class.

A class explains what is its own in the sections "Parameters" and "Attributes" of its docstring, without defaults. The
decorator adds what it shares with other estimators, and takes names, order and defaults from the signature of the
constructor: so a default is written down once, in the code.
"""

import inspect
import re
from typing import NamedTuple, TypeVar

from bagwise.models._base.parameters import ATTRIBUTES, PARAMETERS

_Class = TypeVar("_Class", bound=type)
_HEADING = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)


class DocEntry(NamedTuple):
    """What a docstring says about one parameter or attribute."""

    kind: str  # its type
    text: str  # indented, as it stands


def sections(docstring: str) -> dict[str, str]:
    """The sections of a docstring in numpydoc style by their headings; what comes before the first is named ""."""
    first, *others = _HEADING.split(inspect.cleandoc(docstring))
    return {"": first, **dict(zip(others[::2], others[1::2], strict=True))}


def entries(section: str) -> dict[str, DocEntry]:
    """The entries of a section, each a line ``name : type`` with an indented text below it."""
    found = {}
    for block in re.split(r"\n+(?=\S)", section.strip()):
        heading, _, text = block.partition("\n")
        name, _, kind = heading.partition(" : ")
        if name:
            found[name] = DocEntry(kind, text)
    return found


def documented(cls: _Class, parameters: str = PARAMETERS, attributes: str = ATTRIBUTES) -> _Class:
    """Complete the docstring of an estimator by texts that it shares with others.

    A parameter or attribute that has no text, in the class or among the shared ones, is left out; a test looks for
    those.
    """
    if cls.__doc__ is None:  # python -OO
        return cls
    parts = sections(cls.__doc__)
    parts["Parameters"] = _parameters(cls, entries(parameters) | entries(parts.get("Parameters", "")))
    parts["Attributes"] = _attributes(cls, entries(attributes), entries(parts.get("Attributes", "")))
    cls.__doc__ = "\n\n".join(_section(heading, text) for heading, text in parts.items() if text) + "\n"
    return cls


def _section(heading: str, text: str) -> str:
    return f"{heading}\n{'-' * len(heading)}\n{text.strip()}" if heading else text.strip()


def _parameters(cls: type, texts: dict[str, DocEntry]) -> str:
    wanted = inspect.signature(cls).parameters.values()
    return "\n".join(
        f"{parameter.name} : {texts[parameter.name].kind}{_default(parameter)}\n{texts[parameter.name].text}"
        for parameter in wanted
        if parameter.name in texts
    )


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    return f', default="{value}"' if isinstance(value, str) else f", default={value!r}"


def _attributes(cls: type, texts: dict[str, DocEntry], own: dict[str, DocEntry]) -> str:
    declared = fitted_attributes(cls) - set(own)
    shared = {name: entry for name, entry in texts.items() if name in declared}
    return "\n".join(f"{name} : {entry.kind}\n{entry.text}" for name, entry in (own | shared).items())


def fitted_attributes(cls: type) -> set[str]:
    """Names of the public fitted attributes that a class and its bases declare: annotations and properties."""
    declared: set[str] = set()
    for base in cls.__mro__:
        properties = {name for name, value in vars(base).items() if isinstance(value, property)}
        declared |= properties | set(inspect.get_annotations(base))
    return {name for name in declared if name.endswith("_") and not name.startswith("_")}
