"""Numbers in JSON, which knows neither NaN nor infinity."""

import math
from typing import Any


def plain_numbers(value: Any) -> Any:
    """What JSON can hold: an undefined number is null, an infinite one is text; lists and dicts are gone through."""
    if isinstance(value, dict):
        return {name: plain_numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(part) for part in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def number_from_json(value: Any) -> float:
    """A number that ``plain_numbers`` wrote."""
    return math.nan if value is None else float(value)
