"""Files in and out: long tables, ``.npz`` archives of bags, folders of h5 files, cells, predictions as tables."""

from typing import TYPE_CHECKING

from bagwise._lazy import lazy_names

if TYPE_CHECKING:
    from bagwise.io.cells import add_to_anndata
    from bagwise.io.npz import read_npz, write_npz
    from bagwise.io.predictions import bag_table, instance_table, part_table
    from bagwise.io.tables import read_table, write_table

__all__ = [
    "add_to_anndata",
    "bag_table",
    "instance_table",
    "part_table",
    "read_npz",
    "read_table",
    "write_npz",
    "write_table",
]

_WHERE = {
    "add_to_anndata": "bagwise.io.cells",
    "bag_table": "bagwise.io.predictions",
    "instance_table": "bagwise.io.predictions",
    "part_table": "bagwise.io.predictions",
    "read_npz": "bagwise.io.npz",
    "write_npz": "bagwise.io.npz",
    "read_table": "bagwise.io.tables",
    "write_table": "bagwise.io.tables",
}

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
