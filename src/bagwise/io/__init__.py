"""Files in and out: long tables, ``.npz`` archives of bags, predictions as tables."""

from typing import TYPE_CHECKING

from bagwise._lazy import lazy_names

if TYPE_CHECKING:
    from bagwise.io.npz import read_npz, write_npz
    from bagwise.io.tables import read_table, write_table

__all__ = ["read_npz", "read_table", "write_npz", "write_table"]

_WHERE = {
    "read_npz": "bagwise.io.npz",
    "write_npz": "bagwise.io.npz",
    "read_table": "bagwise.io.tables",
    "write_table": "bagwise.io.tables",
}

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
