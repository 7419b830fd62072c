"""``bagwise heatmap``: where in the slide."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli.arguments import ModelFile
from bagwise.cli.messages import say_written
from bagwise.cli.options import check_outputs, parse_names
from bagwise.exceptions import BagDataError

if TYPE_CHECKING:
    from bagwise.cli.evidence import SavedModel
    from bagwise.io.h5 import TileFile
    from bagwise.plots import HeatmapDisplay


def heatmap(
    model: ModelFile,
    slides: Annotated[list[Path], typer.Argument(metavar="SLIDE.h5...", help="h5 files with features and coords.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")],
    given_label: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Label of these slides: which tile is it, given that label?")
    ] = None,
    level: Annotated[float, typer.Option(metavar="P", help="Probability of the line around tiles.")] = 0.5,
    image: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Picture of the whole slide to lay under the map.")
    ] = None,
    image_size: Annotated[
        str | None,
        typer.Option(metavar="WIDTH,HEIGHT", help="What the picture covers, in the unit of coords, from 0,0."),
    ] = None,
) -> None:
    """Maps of slides: a picture (PNG), squares for QuPath (GeoJSON) and scores beside coords (h5), one of each."""
    from matplotlib.image import imread

    from bagwise._validation import check_below
    from bagwise.cli.evidence import open_model
    from bagwise.io.h5 import open_tiles

    check_below("--level", level, 1.0)
    size = _size(image_size)
    saved = open_model(model)
    if saved.estimator.of_classes or not saved.estimator.abilities.parts:
        raise BagDataError(
            f"{model}: {type(saved.estimator).__name__} does not say how sure it is of every tile, so it has no map."
        )
    output.mkdir(parents=True, exist_ok=True)
    opened = [_with_positions(open_tiles(slide)) for slide in slides]
    if any(slide.path.parent.resolve() == output.resolve() for slide in opened):
        raise BagDataError(
            f"--output {output}: is the folder of the slides; results among them would be read as slides."
        )
    names = [output / slide.path.stem for slide in opened]
    if len(set(names)) < len(names):
        raise BagDataError("two slides have the same name; their maps would be the same file. Give them one by one.")
    check_outputs({str(name): f"{name}.scores.h5" for name in names}, (model, *slides))
    under = None if image is None else imread(image)
    for slide, name in zip(opened, names, strict=True):
        display, tables = _judged(saved, slide, given_label, under, size)
        _write(slide, display, tables, name, level, saved)


def _size(text: str | None) -> tuple[float, float] | None:
    try:
        sizes = tuple(float(part) for part in parse_names(text))
    except ValueError:
        sizes = (0.0,)
    if text is not None and (len(sizes) != 2 or min(sizes) <= 0):
        raise BagDataError(f"--image-size {text}: expected WIDTH,HEIGHT, for example 40000,30000.")
    return None if text is None else (sizes[0], sizes[1])


def _with_positions(slide: "TileFile") -> "TileFile":
    if not slide.unit:
        raise BagDataError(f"{slide.path}: has no coords, so there is no place to draw its tiles at.")
    return slide


def _judged(
    saved: "SavedModel", slide: "TileFile", given_label: str | None, image: Any, image_size: Any
) -> tuple["HeatmapDisplay", dict[str, Any]]:
    """The map of the first label, and the scores of all of them."""
    import numpy as np

    from bagwise.bags import Bags
    from bagwise.metrics import positive_proba
    from bagwise.plots import HeatmapDisplay

    model = saved.estimator
    bags = Bags(slide.read(0, slide.shape[0]), np.zeros(slide.shape[0], dtype=np.int64))
    condition = {} if given_label is None else {"given": _class_of(model, given_label)}
    probability = positive_proba(model.predict_instance_proba(bags, **condition), model.classes_)
    tables = {"probability": probability, "spread": model.predict_instance_spread(bags)}
    first = {name: values if values.ndim == 1 else values[:, 0] for name, values in tables.items()}
    display = HeatmapDisplay(
        slide.coords(),
        first["probability"],
        spread=first["spread"],
        name=slide.path.stem,
        unit="µm" if slide.unit == "um" else "px",
        image=image,
        image_size=image_size,
    )
    return display, tables


def _class_of(model: Any, text: str) -> Any:
    """The label that the user typed, for one bag, as the model knows it."""
    import numpy as np

    classes = np.ravel(model.classes_)[:2].tolist()
    found = [value for value in classes if str(value) == text]
    if not found:
        raise BagDataError(f"--given-label {text}: the labels of this model are {classes[0]} and {classes[1]}.")
    several = np.ndim(model.classes_) == 2
    return np.full((1, len(model.classes_)), found[0]) if several else [found[0]]


def _write(
    slide: "TileFile", display: "HeatmapDisplay", tables: dict[str, Any], name: Path, level: float, saved: "SavedModel"
) -> None:
    """Three files that share a name; dots in it stay."""
    import numpy as np
    from matplotlib.figure import Figure

    from bagwise.io.heatmap import write_figure, write_geojson, write_scores
    from bagwise.plots.heatmap import usual_step

    paths = {ending: Path(f"{name}{ending}") for ending in (".png", ".geojson", ".scores.h5")}
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    display.plot(figure.subplots(1, 2), level=level)
    write_figure(figure, paths[".png"])
    scores = {"probability": display.probability, "spread": np.asarray(display.spread)}
    size = slide.tile_size or usual_step(display.coords)
    write_geojson(paths[".geojson"], display.coords, size, scores, level=level)
    notes = {"model": saved.estimator.card.name, "labels": list(saved.label_names()), "unit": slide.unit}
    write_scores(paths[".scores.h5"], display.coords, tables, notes)
    for path in paths.values():
        say_written("heatmap", path)
