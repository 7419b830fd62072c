"""Options of the command line as values: lists of names, settings of a model, shapes, places to write to."""

import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise._files import PathLike, check_writable, is_same_file, is_stream
from bagwise.exceptions import BagDataError

_WORDS = {"none": None, "true": True, "false": False}
_NOT_ON_A_COMMAND_LINE = ("callback", "feature_map")


def parse_names(text: str | None) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()] if text is not None else []


def parse_settings(pairs: Sequence[str], model: type) -> dict[str, Any]:
    """``name=value`` texts as arguments of the model's constructor."""
    signature = inspect.signature(model).parameters
    parameters = {name: kind for name, kind in signature.items() if name not in _NOT_ON_A_COMMAND_LINE}
    chosen = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise BagDataError(f"--set {pair}: expected name=value, for example --set bias=5.0.")
        if name not in parameters:
            raise BagDataError(
                f"--set {pair}: {model.__name__} has no setting {name!r}; it has {', '.join(parameters)}."
            )
        chosen[name] = parse_value(text, parameters[name].default)
    return chosen


def parse_value(text: str, default: Any = None) -> Any:
    """None, a truth value, a number, a list of numbers between commas, or text.

    A whole number where the default is a decimal becomes one.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if "," in text:
        numbers = [_number(part, 0.0) for part in text.split(",")]
        return numbers if all(isinstance(number, float) for number in numbers) else text
    return _number(text, default)


def _number(text: str, default: Any) -> Any:
    """The text itself where it is none."""
    for kind in (float,) if isinstance(default, float) else (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_image_shape(text: str | None) -> tuple[int, ...] | None:
    """HEIGHT,WIDTH, or HEIGHT,WIDTH,3."""
    if text is None:
        return None
    sizes = parse_names(text)
    if len(sizes) not in (2, 3) or not all(size.isdecimal() for size in sizes):
        raise BagDataError(f"--image-shape {text}: expected HEIGHT,WIDTH, for example 28,28 (28,28,3 for colours).")
    return tuple(int(size) for size in sizes)


def check_outputs(outputs: Mapping[str, PathLike | None], inputs: Iterable[Path]) -> None:
    """Find out before the work, not after it, that a result cannot be written or would destroy another file.

    ``outputs`` are the files to write by the options that name them.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        check_writable(path)
        for read in inputs:
            if read.is_file() and is_same_file(path, read):
                raise BagDataError(f"{option} {path}: is the file {read}, which is read here; give another name.")
    for (option, path), (other, second) in itertools.combinations(given.items(), 2):
        if not is_stream(path) and is_same_file(path, second):
            raise BagDataError(f"{option} {path} and {other} {second} are the same file; give two names.")
