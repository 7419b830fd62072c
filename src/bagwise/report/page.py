"""From a fitted model and some bags to one HTML file."""

from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bagwise._files import PathLike, write_whole
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import bag_report, calibration_error
from bagwise.plots import CURVES, FractionDisplay, OutcomesDisplay
from bagwise.report import content, figures
from bagwise.report.answers import Answers, collect
from bagwise.report.bag_cards import ROWS_SHOWN, UNKNOWN, bag_cards, table_of_bags
from bagwise.report.figures import Curves
from bagwise.report.rates import rates_section
from bagwise.report.templates import page_template

TITLE = "What the model says about the bags"
LABELS_IN_TABLE = 6
CLASSES_DRAWN = 20
BARS_DRAWN = 8


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
    about: Any = None,
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
    about : data frame with one row per bag, whose index holds the bags' ids, or None: further columns of the table of
        bags, for example the hospital or the file of each. Metadata (``bags.meta``) that are the same for all instances
        of a bag are shown there as well
    given : labels of these bags that the probabilities of instances are to be conditioned on (those of bags are not)
    """
    answers = collect(model, as_bags(bags), y, instance_y, labels, given)
    shown = {
        "title": title,
        "note": note,
        "bag_table": table_of_bags(answers, _labels_shown(answers), _about(about, answers)),
        "rates": rates_section(model, answers.bags, y),
    }
    html = page_template("template.html").render(_context(model, answers, image_shape) | shown)
    write_whole(path, lambda stream: stream.write(html.encode("utf-8", errors="backslashreplace")))
    return Path(path)


def _context(model: Any, answers: Answers, image_shape: Sequence[int] | None) -> dict[str, Any]:
    found = content.reports(answers)
    return {
        "model": type(model).__name__,
        "source": model.card.source,
        "bags": answers.bags,
        "labels": answers.labels,
        "several": answers.several,
        "of_classes": answers.classes is not None,
        "of_shares": answers.of_shares,
        "of_outcomes": bool(answers.outcomes),
        "today": date.today().isoformat(),
        "version": version("bagwise"),
        "headlines": list(content.headlines(found)),
        "measures": list(content.measure_tables(found)),
        "pictures": _pictures(answers),
        "courses": _courses(model),
        "cards": bag_cards(answers, image_shape),
        "pictured": image_shape is not None,
        "n_table_labels": _labels_shown(answers),
        "words": answers.words,
        "rows_shown": ROWS_SHOWN,
        "model_tables": [content.settings(model), content.outcome(model)],
        "warning": content.mixing_warning(model),
        "learned_from_known": model.fit_record().learned_from_known,
        "given": answers.given,
        "has_labels": answers.bag_truth is not None,
        "has_instance_labels": answers.instance_truth is not None,
    }


def _labels_shown(answers: Answers) -> int:
    return min(len(answers.labels), LABELS_IN_TABLE)


def _about(table: Any, answers: Answers) -> dict[str, list[Any]]:
    """The user's own columns, in the order of the bags: what describes whole bags, then ``about``."""
    found = _of_whole_bags(answers.bags)
    if table is None:
        return found
    if not isinstance(table, pd.DataFrame):
        raise BagDataError(f"about: expected a data frame with one row per bag, got {type(table).__name__}.")
    return found | {str(name): list(answers.bags.align(table[name])) for name in table.columns}


def _of_whole_bags(bags: Bags) -> dict[str, list[Any]]:
    """Columns of metadata that hold one value in every bag; the others describe single instances."""
    meta = bags.meta
    if meta is None:
        return {}
    texts = meta.astype(object).where(meta.notna(), UNKNOWN).astype(str)
    first = texts.iloc[bags.offsets[:-1]]
    same = (texts.to_numpy() == first.to_numpy()[bags.index]).all(axis=0)
    return {str(name): first[name].tolist() for name in texts.columns[same]}


def _pictures(answers: Answers) -> list[dict[str, str]]:
    """Title, meaning and image of every diagram there is something to draw for."""
    curves, shares = _curves(answers), _share_picture(answers)
    ranked = {name: pair for name, pair in curves.items() if len(np.unique(pair[0][~np.isnan(pair[0])])) == 2}
    drawn = shares
    if curves:
        meaning = (
            "On the diagonal the probabilities are right: 70 % of the cases with a probability of 0.7 are positive. "
            "Bars are 95 % intervals; larger dots stand for more cases."
        )
        errors = {name: calibration_error(*pair) for name, pair in curves.items()}
        image = figures.reliability_figure(curves)
        drawn.append(_picture("Reliability", meaning, image, "calibration error", errors))
    if ranked:
        meaning = (
            "The share of positives that are found, against the share of negatives that are wrongly called positive, "
            "for every threshold."
        )
        areas = {name: bag_report(*pair)["auc"] for name, pair in ranked.items()}
        drawn.append(_picture("ROC", meaning, figures.roc_figure(ranked), "area under the curve", areas))
    return drawn + _confusion(answers)


def _confusion(answers: Answers) -> list[dict[str, str]]:
    """Which classes are taken for which, where the classes of some bags are known and are not too many to draw."""
    classes = answers.classes
    if classes is None or classes.bag_candidates is None or len(answers.labels) > CLASSES_DRAWN:
        return []
    sure = classes.bag_candidates.sum(axis=1) == 1
    if not sure.any():
        return []
    names = np.array(answers.labels)
    truth, predicted = (table[sure].argmax(axis=1) for table in (classes.bag_candidates, classes.bag_probability))
    left_open = None if classes.given is None else classes.given[sure]
    meaning = "Numbers of bags: rows are true classes, columns are predicted ones. Orange marks wrong answers."
    if left_open is not None:
        meaning += " “Open” counts those of them that are among the candidates of the bag."
    image = figures.confusion_figure(names[truth], names[predicted], names, left_open)
    right = {"the bags": float(np.mean(truth == predicted))}
    return [_picture("Confusion of classes", meaning, image, "share of right classes", right)]


def _share_picture(answers: Answers, title: str = "Shares", what: str = "positives") -> list[dict[str, str]]:
    """Stated against expected shares, where bags state shares or exact numbers."""
    if answers.outcomes:
        each = (
            _share_picture(outcome, f"Shares of {outcome.labels[0]}", outcome.labels[0]) for outcome in answers.outcomes
        )
        drawn = [picture for pictures in each for picture in pictures][:LABELS_IN_TABLE]
        return _outcome_picture(answers) + drawn if drawn else []
    if answers.counts is None or answers.stated is None:
        return []
    low, high = answers.stated_shares()
    stated = np.where(low == high, low, np.nan)
    if np.isnan(stated).all():
        return []
    display = FractionDisplay(stated, answers.counts.expected)
    meaning = (
        f"Each dot is a bag: the share of {what} that it states, and the share that the model expects, with its 90 % "
        "interval. Orange intervals miss the stated share; one in ten may."
    )
    image = figures.display_figure(display)
    return [_picture(title, meaning, image, "share inside the interval", {"bags": display.coverage})]


def _outcome_picture(answers: Answers) -> list[dict[str, str]]:
    """Shares of all outcomes in the bags that surprise most, as bars."""
    first = np.argsort(-answers.surprise(), kind="stable")[:BARS_DRAWN]
    stated = np.stack([outcome.stated_shares()[0] for outcome in answers.outcomes], axis=1)
    display = OutcomesDisplay(
        stated[first], answers.bag_probability[first], [answers.bags.ids[b] for b in first], answers.labels
    )
    meaning = "The bags that surprise most: for each the expected shares of the outcomes above the stated ones."
    largest = {"the first bag": float(answers.surprise()[first[0]])}
    return [_picture("Surprising bags", meaning, figures.display_figure(display), "surprise", largest)]


def _picture(title: str, meaning: str, image: str, measure: str, values: dict[str, float]) -> dict[str, str]:
    """A diagram; who cannot see it gets its main figures."""
    figures_read = ", ".join(f"{measure} of {name} {content.number(value)}" for name, value in values.items())
    return {"title": title, "meaning": meaning, "image": image, "alt": f"{title} diagram: {figures_read}"}


def _course(title: str, meaning: str, trace: Any) -> dict[str, str]:
    end = "settled" if trace.converged else "not settled"
    alt = f"{title}: {len(trace.values)} steps, {end}, last {trace.name} {content.number(float(trace.values[-1]))}"
    return {"title": title, "meaning": meaning, "image": figures.trace_figure(trace), "alt": alt}


def _courses(model: Any) -> list[dict[str, str]]:
    """The learning of the kernel, where it was learned, and the inference that followed."""
    drawn, record = [], model.fit_record()
    learning, trace = record.learning, record.trace
    if learning is not None and np.isfinite(learning.values).any():
        meaning = f"The best {learning.name} found so far, at every trial of the kernel; it should rise and level off."
        drawn.append(_course("Learning the kernel", meaning, learning))
    if trace is not None and len(trace.values):
        meaning = f"The {trace.name} at every iteration of the fit; it {_expected_course(model)}."
        drawn.append(_course("Course of the fit", meaning, trace))
    return drawn


def _expected_course(model: Any) -> str:
    if content.mixing(model) is not None:
        return "should end as noise around a level"
    inference = model.fit_record().inference
    if inference is None and model.of_classes:
        return "should fall towards 0"
    if inference in ("ep", "bag-ep"):
        return "may swing at first and should level off"
    return "should rise and level off"


def _curves(answers: Answers) -> Curves:
    """Bags and instances of a single label; the bags of the first few labels where there are several."""
    bags, instances = None if answers.of_shares else answers.measured_truth(), answers.instance_truth
    if answers.several:
        columns = range(0 if bags is None else min(len(answers.labels), len(CURVES)))
        curves = {answers.labels[k]: (bags[:, k], answers.bag_probability[:, k]) for k in columns if bags is not None}
    else:
        curves = {} if bags is None else {"bags": (bags[:, 0], answers.bag_probability[:, 0])}
        if instances is not None:
            curves["instances"] = (instances[:, 0], answers.instance_probability[:, 0])
    return {name: pair for name, pair in curves.items() if not np.isnan(pair[0]).all()}
