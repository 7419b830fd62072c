"""``bagwise demo``: the main job on built-in data."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli.messages import say_written
from bagwise.report.terminal import print_measures

_NOTE = (
    "Every bag holds 6 to 12 handwritten digits. From {n_train} bags the model learned only whether there is a 9 in "
    "them, never which digit it is. Here are {n_test} other bags: which of them hold a 9, and where is it?"
)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "demo"
    ),
) -> None:
    """Try bagwise on built-in data: which bags of handwritten digits hold a 9, and which digit is it?"""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from bagwise.datasets import load_digit_bags
    from bagwise.models.bag_gp import BagGP
    from bagwise.report import content, write_report
    from bagwise.report.answers import collect

    output.mkdir(parents=True, exist_ok=True)
    bags, y, instance_y = load_digit_bags(target=9)
    train, test = map(np.sort, train_test_split(np.arange(len(bags)), test_size=1 / 3, stratify=y, random_state=0))
    note = _NOTE.format(n_train=len(train), n_test=len(test))
    typer.echo(note)
    model = BagGP(random_state=0, verbose=1).fit(bags[train], y[train])
    held_out, truth = bags[test], instance_y[np.isin(bags.index, test)]
    print_measures(content.reports(collect(model, held_out, y[test], truth)))
    model.save(output / "model.safetensors")
    page = write_report(
        model,
        held_out,
        y[test],
        output / "report.html",
        instance_y=truth,
        title="Which bags hold a 9?",
        note=note,
        image_shape=(8, 8),
    )
    say_written("model", output / "model.safetensors")
    say_written("report, to open in a browser", page)
