"""What is done with a spoilt file, and what may come of it: an answer or a refusal, never anything else."""

import warnings
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.seeds import Seeds
from typer.testing import CliRunner

import bagwise
from bagwise import Bags
from bagwise.cli.app import app
from bagwise.exceptions import BagwiseError
from bagwise.io import read_npz, write_table
from bagwise.io.bag_data import read_bags
from bagwise.io.npz import read_labelled_rows
from bagwise.io.predictions import bag_table, instance_table

ACCEPTED, REFUSED = "accepted", "refused"


class WrongError(Exception):
    """Something that must not happen, other than an exception of the wrong kind."""


def use(kind: str, path: Path, seeds: Seeds, output: Path) -> str:
    """Read the file and predict with it: ``ACCEPTED`` or ``REFUSED``; everything else is raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            USES[kind](path, seeds, output)
    except (BagwiseError, OSError) as error:
        if not str(error):
            raise WrongError("a refusal without a word") from error
        _check_nothing_left(output, may_exist=False)
        return REFUSED
    _check_nothing_left(output, may_exist=True)
    return ACCEPTED


def use_command(kind: str, path: Path, seeds: Seeds, output: Path, number: int) -> str:
    """The same through the command line, in this process."""
    model = {"table": seeds.model, "model": path}.get(kind, seeds.plain_model)
    data = path if kind != "model" else seeds.tables[0] if path.name == seeds.model.name else seeds.plain_data
    commands = [
        ("predict", model, data),
        ("predict", model, data, "--bags", output),
        ("evaluate", model, data, "--label", "y"),
        ("suggest", model, data, "-o", output),
        ("report", model, data, "-o", output),
        ("fit", data, "--model", "mil-gp-probit", "--bag", "bag", "--label", "y", "--set", "max_iter=1", "-o", output),
    ]
    result = CliRunner().invoke(app, [str(part) for part in commands[number % len(commands)]])
    if result.exit_code not in (0, 2):
        raise WrongError(f"status {result.exit_code}: {result.output[-300:]}") from result.exception
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if any(letter in result.output for letter in "\x1b\x07\r\x00"):
        raise WrongError("a control character was printed")
    _check_nothing_left(output, may_exist=result.exit_code == 0)
    return ACCEPTED if result.exit_code == 0 else REFUSED


def _check_nothing_left(output: Path, *, may_exist: bool) -> None:
    left = [file.name for file in output.parent.iterdir() if file != output or not may_exist]
    if left:
        raise WrongError(f"files were left behind: {left}")


def _use_table(path: Path, seeds: Seeds, output: Path) -> None:
    known = read_bags(path, bag="bag", labels=["y"], known="seen", labels_may_be_absent=True)
    _predict(_loaded(seeds.model), _only(known.bags, ("u", "v")), output)


def _only(bags: Bags, names: tuple[str, ...]) -> Bags:
    """The features of the fit, where they are there."""
    if bags.feature_names is None or not set(names) <= set(bags.feature_names):
        return bags
    return bags.with_features(bags.X[:, [bags.feature_names.index(name) for name in names]], names)


def _use_archive(path: Path, seeds: Seeds, output: Path) -> None:
    bags, _, _ = read_npz(path)
    with suppress(BagwiseError):
        read_labelled_rows(path)
    _predict(_loaded(seeds.plain_model if bags.feature_names is None else seeds.model), bags, output)


def _use_bags(path: Path, seeds: Seeds, output: Path) -> None:
    bags = Bags.load(path)
    _predict(_loaded(seeds.model), bags, output)
    output.unlink()
    bags.save(output)


def _use_model(path: Path, seeds: Seeds, output: Path) -> None:
    model: Any = bagwise.load(path)
    bags = read_npz(seeds.archives[0])[0]
    bags = bags.with_features(bags.X, getattr(model, "feature_names_in_", None))
    answers = (model.predict_proba(bags), model.predict_instance_proba(bags))
    if not all(np.isfinite(part).all() and (part >= 0).all() and (part <= 1 + 1e-12).all() for part in answers):
        raise WrongError("a model gave answers that are no probabilities")
    _predict(model, bags, output)
    output.unlink()
    model.save(output)


_loaded = lru_cache(maxsize=4)(bagwise.load)


def _predict(model: Any, bags: Bags, output: Path) -> None:
    write_table(instance_table(model, bags), output)
    write_table(bag_table(model, bags), output)


USES = {"table": _use_table, "archive": _use_archive, "bags": _use_bags, "model": _use_model}
