"""Files in and out: long tables, ``.npz`` archives of bags, predictions as tables."""

from bagwise.io.npz import read_npz, write_npz
from bagwise.io.tables import read_table, write_table

__all__ = ["read_npz", "read_table", "write_npz", "write_table"]
