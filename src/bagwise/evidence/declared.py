"""Evidence that a model does not take is refused in one place, whatever the model and whatever its form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bagwise.bags import Bags
from bagwise.evidence.known import has_known
from bagwise.evidence.statements import CANDIDATES, COUNT, FRACTION, LABEL, Evidence
from bagwise.exceptions import BagDataError

_NAMES = {LABEL: "label", FRACTION: "fraction", COUNT: "count", CANDIDATES: "candidates"}


def refuse_undeclared(model: str, takes: Sequence[str], bags: Bags, y: Any) -> None:
    """Raise an error that names the first bag whose evidence is of a kind that the model does not take."""
    if "known" not in takes and has_known(bags):
        row = int(np.flatnonzero(~np.isnan(bags.known))[0])
        raise BagDataError(
            f"{model} takes {', '.join(takes)}, but instances of the bags are known one by one (the first in bag "
            f"{bags.ids[bags.index[row]]!r}); drop them with bags.with_known(None), or use a model that takes them."
        )
    for bag, kind in _stated_kinds(y):
        if kind not in takes:
            where = f"bag {bags.ids[bag]!r}" if bag < len(bags) else f"entry {bag}"
            raise BagDataError(
                f"{where} states a {kind}, but {model} takes {', '.join(takes)}; leave such bags out, or use a model "
                f"that takes evidence of the kind {kind}."
            )


def _stated_kinds(y: Any) -> Iterable[tuple[int, str]]:
    """Kinds of the statements in an ``Evidence``, given whole or in pieces; nothing for y of any other form."""
    if isinstance(y, Mapping):
        y = list(y.values())
    several = isinstance(y, list | tuple | pd.Series) or (isinstance(y, np.ndarray) and y.ndim > 0)
    pieces = y if several else [y]
    bag = 0
    for piece in pieces:
        if not isinstance(piece, Evidence):
            return
        for kind in piece.kind.tolist():
            if kind in _NAMES:
                yield bag, _NAMES[kind]
            bag += 1
