"""Model files that are kept, and changes to them."""

import copy
from pathlib import Path

from bagwise.persistence import read_model, write_model

FIXTURES = sorted((Path(__file__).parent / "fixtures" / "schema1").glob("*.safetensors"))


def fixture(name):
    return next(path for path in FIXTURES if path.stem == name)


def changed(name, path, change):
    """A fixture with a changed description and tensors, and a checksum that fits."""
    description, tensors = read_model(fixture(name))
    description = copy.deepcopy(description)
    change(description, tensors)
    write_model(path, description, tensors)
    return path


def put(value, *keys):
    def change(description, tensors):
        for key in keys[:-1]:
            description = description[key]
        description[keys[-1]] = value

    return change


def places(tree, at=()):
    """Every place in a description that holds something."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in parts:
        yield (*at, key)
        yield from places(part, (*at, key))
