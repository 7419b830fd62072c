"""From a fitted model and some bags to one HTML file."""

from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from bagwise._files import PathLike, write_whole
from bagwise.bags import as_bags
from bagwise.report import content, figures
from bagwise.report.answers import Answers, collect
from bagwise.report.bag_cards import ROWS_SHOWN, bag_cards, bag_rows
from bagwise.report.figures import COLOURS, Curves

TITLE = "What the model says about the bags"
LABELS_IN_TABLE = 6


def write_report(
    model: Any,
    bags: Any,
    y: Any,
    path: PathLike,
    *,
    instance_y: Any = None,
    title: str = TITLE,
    note: str = "",
    image_shape: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    given: Any = None,
) -> Path:
    """Write one self-contained HTML page about what a fitted model says of some bags.

    Parameters
    ----------
    model : a fitted estimator
    bags : the bags to report on; best ones the model has not seen
    y : what is known of them as for ``fit`` (labels, fractions, ranges of counts, an ``Evidence``), or None: the page
        then has no figures of merit
    path : the file to write, whole or not at all
    instance_y : instance labels for evaluation, in the order of ``bags.X``, NaN where unknown
    title, note : heading of the page and a sentence below it, say what the bags are
    image_shape : (height, width), or (height, width, 3), where the features of an instance are the pixels of an image
    labels : names of the label columns; None for those that the model knows
    given : labels of these bags that the probabilities of instances are to be conditioned on (those of bags are not)
    """
    answers = collect(model, as_bags(bags), y, instance_y, labels, given)
    html = _template().render(_context(model, answers, image_shape) | {"title": title, "note": note})
    write_whole(path, lambda stream: stream.write(html.encode("utf-8", errors="backslashreplace")))
    return Path(path)


def _context(model: Any, answers: Answers, image_shape: Sequence[int] | None) -> dict[str, Any]:
    found = content.reports(answers)
    n_labels = min(len(answers.labels), LABELS_IN_TABLE)
    return {
        "model": type(model).__name__,
        "source": model.card.source,
        "bags": answers.bags,
        "labels": answers.labels,
        "several": answers.several,
        "of_classes": answers.classes is not None,
        "today": date.today().isoformat(),
        "version": version("bagwise"),
        "headlines": list(content.headlines(found)),
        "measures": list(content.measure_tables(found)),
        "pictures": _pictures(answers),
        "courses": _courses(model),
        "cards": bag_cards(answers, image_shape),
        "pictured": image_shape is not None,
        "bag_rows": list(bag_rows(answers, n_labels)),
        "table_labels": answers.labels[:n_labels],
        "rows_shown": ROWS_SHOWN,
        "model_tables": [content.settings(model), content.outcome(model)],
        "warning": content.mixing_warning(model),
        "told": model.learned_from_known_,
        "given": answers.given,
        "has_labels": answers.bag_truth is not None,
        "has_counts": answers.counts is not None,
        "has_instance_labels": answers.instance_truth is not None,
    }


def _pictures(answers: Answers) -> list[dict[str, str]]:
    """Title, meaning and image of every diagram there is something to draw for."""
    curves = _curves(answers)
    ranked = {name: pair for name, pair in curves.items() if len(np.unique(pair[0][~np.isnan(pair[0])])) == 2}
    drawn = []
    if curves:
        meaning = (
            "On the diagonal, 70 % of what is called 70 % likely is so. Bars: 95 % intervals; larger dots: more cases."
        )
        drawn.append({"title": "Reliability", "meaning": meaning, "image": figures.reliability_figure(curves)})
    if ranked:
        meaning = "The share of positives found against the share of negatives wrongly called, as the threshold falls."
        drawn.append({"title": "ROC", "meaning": meaning, "image": figures.roc_figure(ranked)})
    return drawn


def _courses(model: Any) -> list[dict[str, str]]:
    """The learning of the kernel, where it was learned, and the inference that followed."""
    drawn = []
    learning = getattr(model, "learning_trace_", None)
    if learning is not None and np.isfinite(learning.values).any():
        meaning = f"The best {learning.name} found so far, at every trial of the kernel; it should rise and level off."
        drawn.append({"title": "Learning the kernel", "meaning": meaning, "image": figures.trace_figure(learning)})
    if len(model.trace_.values):
        meaning = f"The {model.trace_.name} at every iteration of the fit; it {_expected_course(model)}."
        drawn.append({"title": "Course of the fit", "meaning": meaning, "image": figures.trace_figure(model.trace_)})
    return drawn


def _expected_course(model: Any) -> str:
    if content.mixing(model) is not None:
        return "should end as noise around a level"
    if model.rule_.of_classes:
        return "should fall towards 0"
    if getattr(model, "inference_", None) in ("ep", "bag-ep"):
        return "may swing at first and should level off"
    return "should rise and level off"


def _curves(answers: Answers) -> Curves:
    """Bags and instances of a single label; the bags of the first few labels where there are several."""
    bags, instances = answers.measured_truth(), answers.instance_truth
    if answers.several:
        columns = range(0 if bags is None else min(len(answers.labels), len(COLOURS)))
        curves = {answers.labels[k]: (bags[:, k], answers.bag_probability[:, k]) for k in columns if bags is not None}
    else:
        curves = {} if bags is None else {"bags": (bags[:, 0], answers.bag_probability[:, 0])}
        if instances is not None:
            curves["instances"] = (instances[:, 0], answers.instance_probability[:, 0])
    return {name: pair for name, pair in curves.items() if not np.isnan(pair[0]).all()}


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html")
