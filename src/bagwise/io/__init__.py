"""Files in and out: long tables, ``.npz`` archives of bags, folders of h5 files, cells, predictions as tables."""

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
