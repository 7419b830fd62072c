"""The description of a model file, field by field: what each must hold before anything is built from it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from bagwise._validation import is_whole
from bagwise.exceptions import ModelFileError
from bagwise.numerics.links import LINKS

_ABSENT = object()
_TAGS = ("float", "kernel", "feature_map", "tensor")  # of settings that JSON cannot hold as they are


class Field(NamedTuple):
    """What a field must hold, in words for the refusal, and whether it may be absent (files of schema 1)."""

    holds: Callable[[Any], bool]
    words: str
    optional: bool = False


def check_description(description: Mapping[str, Any], posteriors: Mapping[str, Any], traces: tuple[str, ...]) -> None:
    """Refuse a description with a field that is missing or of another kind, by the name of that field."""
    fields = _FIELDS | {
        "posterior": Field(lambda value: _is_text(value) and value in posteriors, f"one of {_words(posteriors)}", True),
        **{f"traces.{name}": _TRACE for name in traces},
        **{f"parameters.{name}": _SETTING for name in _names_of(description.get("parameters"))},
    }
    for place, field in fields.items():
        value = _at(description, place)
        if value is _ABSENT and not field.optional:
            raise ModelFileError(f"the model file is incomplete or damaged: {place} is missing.")
        if value is not _ABSENT and not field.holds(value):
            raise ModelFileError(
                f"the model file is incomplete or damaged: {place} is {value!r:.60}, expected {field.words}."
            )


@contextmanager
def damage_explained() -> Iterator[None]:
    """A damaged description can go wrong in any way while a model is built from it; the error says that it is one."""
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"the model file is incomplete or damaged ({error!r}).") from error


def _at(description: Any, place: str) -> Any:
    """What stands at "features.kernel"; the name of a setting may hold further dots."""
    for name in place.split(".", 1):
        if not isinstance(description, dict) or name not in description:
            return _ABSENT
        description = description[name]
    return description


def _names_of(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _words(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names))


# ---------------------------------------------------------------- kinds of values


def _is_text(value: Any) -> bool:
    """Text that can be written to any file: without lone surrogates, which JSON lets pass."""
    return isinstance(value, str) and value == value.encode(errors="ignore").decode()


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(holds, value))


def _are_texts(value: Any) -> bool:
    return _is_list(value, _is_text)


def _or_nothing(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _are_classes(value: Any) -> bool:
    return any(_is_list(value, holds) for holds in (_is_flag, _is_number, _is_text)) and len(value) >= 2


def _is_trace(value: Any) -> bool:
    flags = ("converged", "interrupted")
    return (
        isinstance(value, dict)
        and set(value) == {"name", *flags}
        and _is_text(value["name"])
        and all(_is_flag(value[name]) for name in flags)
    )


def _are_chains(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"names", "labels"}
        and _are_texts(value["names"])
        and _or_nothing(_are_texts)(value["labels"])
    )


def _are_columns(value: Any) -> bool:
    single, several = _or_nothing(_is_text), _are_texts
    return isinstance(value, dict) and all(
        single(name) if key in ("bag", "known", "weight", "part", "group") else several(name)
        for key, name in value.items()
    )


def _is_own(value: Any) -> bool:
    """Further fitted attributes: text, or whole numbers in lists (which instances were witnesses)."""
    return isinstance(value, dict) and all(
        part is None or _is_text(part) or is_whole(part) or _is_list(part, lambda row: _is_list(row, is_whole))
        for part in value.values()
    )


def _are_sizes(value: Any) -> bool:
    return _is_list(value, is_whole) and len(value) == 2 and 0 < value[0] <= value[1]


def _are_two_numbers(value: Any) -> bool:
    return _is_list(value, _is_number) and len(value) == 2


def _are_group_effects(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"columns", "factors"}
        and _is_list(value["columns"], lambda number: is_whole(number) and number >= 0)
        and _is_list(value["factors"], lambda part: _is_list(part, _is_number))
    )


def _is_rule(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_flag(part) or part is None or _is_text(part) or _is_number(part) for part in value.values()
    )


def _is_setting(value: Any) -> bool:
    if value is None or _is_flag(value) or _is_text(value) or _is_number(value):
        return True
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((tag, part),) = value.items()
    if tag == "pairs":
        return isinstance(part, list) and all(_is_pair(pair) for pair in part)
    return tag in _TAGS and (isinstance(part, dict) if tag in ("kernel", "feature_map") else _is_text(part))


def _is_pair(value: Any) -> bool:
    """A class and its weight."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return (_is_text(value[0]) or _is_flag(value[0]) or _is_number(value[0])) and _is_number(value[1])


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


_MAPPING = Field(_is_mapping, "names and values")
_NAMES = Field(_or_nothing(_are_texts), "a list of names, or null")
_NUMBER = Field(_is_number, "a finite number")
_SETTING = Field(_is_setting, "a number, text, true, false, null, or one of these marked as a kernel, map or array")
_TRACE = Field(_or_nothing(_is_trace), "its name and whether it converged or was interrupted, or null")
_FIELDS = {
    "parameters": _MAPPING,
    "features": _MAPPING,
    "features.kernel": _MAPPING,
    "features.whitened": Field(_is_flag, "true or false", True),
    "features.bias": _NUMBER,
    "features.jitter": _NUMBER,
    "features.origin": Field(_is_text, "text"),
    "traces": _MAPPING,
    "fitted": _MAPPING,
    "fitted.classes": Field(_are_classes, "two or more numbers, or names"),
    "fitted.label_names": Field(
        _or_nothing(lambda value: _are_texts(value) and len(value) >= 2), "two or more names, or null"
    ),
    "fitted.feature_names": _NAMES,
    "fitted.n_features": Field(is_whole, "a whole number"),
    "fitted.columns": Field(_are_columns, "names of columns", True),
    "fitted.sizes_seen": Field(_are_sizes, "two whole numbers, the smaller first", True),
    "fitted.learned_from_known": Field(_is_flag, "true or false", True),
    "notes": Field(_are_columns, "names of columns", True),
    "rule": Field(_is_rule, "the name of a rule and its numbers or words", True),
    "features.effect": Field(
        lambda value: _is_number(value) or _is_list(value, lambda part: _is_list(part, _is_number)),
        "a number, or three lists of numbers",
        True,
    ),
    "features.effect_of_groups": Field(
        _or_nothing(_are_group_effects), "numbers of columns and lists of factors, or null", True
    ),
    "features.size_range": Field(_or_nothing(_are_two_numbers), "two numbers, or null", True),
    "features.stretched": Field(_is_flag, "true or false", True),
    "features.leftovers": Field(_is_flag, "true or false", True),
    "fitted.seed": Field(is_whole, "a whole number"),
    "fitted.log_evidence": Field(
        _or_nothing(lambda value: _is_number(value) or _is_list(value, _is_number)), "a number for every label, or null"
    ),
    "fitted.own": Field(_is_own, "text, or lists of whole numbers, by name"),
    "link": Field(lambda value: _is_text(value) and value in LINKS, f"one of {_words(LINKS)}", True),
    "chains": Field(_or_nothing(_are_chains), "names of what was watched, or null", True),
}
