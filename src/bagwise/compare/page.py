"""A comparison in words, as tables of text, and as files: a page, a picture and a table."""

import io
import math
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bagwise._files import write_whole
from bagwise._validation import visible
from bagwise.bench.progress import duration
from bagwise.bench.render import in_words, number_text
from bagwise.compare.picture import draw_comparison
from bagwise.compare.result import ComparisonResult
from bagwise.io.tables import write_table
from bagwise.report.figures import png_uri
from bagwise.report.templates import page_template

TITLE = "Which model is best for these bags?"
_NARROW = (" auc", "log_likelihood", "mean_absolute_error", "coverage")


class TextTable(NamedTuple):
    """Rows of text under a heading, and what they mean."""

    title: str
    meaning: str
    header: list[str]
    rows: list[list[str]]


def narrow_metrics(result: ComparisonResult) -> tuple[str, ...]:
    """The measure that decides and two more: what fits into a terminal."""
    others = (name for name in result.metrics if name.endswith(_NARROW))
    return tuple(dict.fromkeys([result.metric, *others]))[:3]


def measures_table(result: ComparisonResult, metrics: Sequence[str] | None = None) -> TextTable:
    """Every model with some measures, or with all."""
    shown = result.metrics if metrics is None else metrics
    header = ["model", *map(in_words, shown), "time per fit", "folds"]
    meaning = (
        "Mean ± standard error over the test folds. The errors allow for training sets that overlap (Nadeau & Bengio)."
    )
    rows = [_measures_row(result, name, shown) for name in result.names]
    return TextTable(f"Measured on {result.n_folds} test folds", meaning, header, rows)


def _measures_row(result: ComparisonResult, name: str, metrics: Sequence[str]) -> list[str]:
    entries = [result.mean(name, metric) for metric in metrics]
    texts = ["–" if entry.n == 0 else f"{number_text(entry.mean)} ± {number_text(entry.error)}" for entry in entries]
    done = [record for record in result.records if record["model"] == name]
    seconds = [record["seconds"]["fit"] for record in done]
    failed = sum(record["model"] == name for record in result.failed)
    time = _fit_time(sum(seconds) / len(seconds)) if seconds else "–"
    return [name, *texts, time, f"{len(done)}{f', {failed} failed' if failed else ''}"]


def _fit_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else duration(seconds)


def differences_table(result: ComparisonResult) -> TextTable:
    """The best model against the others."""
    meaning = (
        f"{in_words(result.metric)} of {result.best} minus that of the other model in the same fold: mean ± standard "
        "error, 95 % interval, and p of no difference."
    )
    rows = [
        [
            found.other,
            f"{number_text(found.mean, sign=True)} ± {number_text(found.error)}",
            f"{number_text(found.lower, sign=True)} to {number_text(found.upper, sign=True)}",
            number_text(found.p),
        ]
        for found in result.differences()
    ]
    return TextTable(f"{result.best} against the others", meaning, ["model", "difference", "95 % interval", "p"], rows)


def verdict(result: ComparisonResult) -> list[str]:
    """Who is best, how sure that is, and what failed, in sentences."""
    entry, alike = result.mean(result.best), result.not_told_apart()
    sentences = [
        f"{result.best} is best: {in_words(result.metric)} {number_text(entry.mean)} ± {number_text(entry.error)}."
    ]
    if alike:
        sentences.append(
            f"These data cannot tell it apart from {', '.join(alike)}: the differences may be chance (p ≥ .05)."
        )
    elif len(result.differences()):
        sentences.append("The difference to every other model is more than chance (p < .05).")
    if not result.is_complete:
        missing = result.n_folds * len(result.models) - len(result.records)
        sentences.append(f"{missing} of {result.n_folds * len(result.models)} fits are missing.")
    return [*sentences, *_failures(result)]


def _failures(result: ComparisonResult) -> list[str]:
    """One sentence per model that failed, with its first error."""
    first = {record["model"]: record["error"] for record in reversed(result.failed)}
    return [f"{name} failed: {visible(error)}" for name, error in first.items()]


def write_comparison(result: ComparisonResult, folder: Path, how_to_fit: Sequence[str], note: str = "") -> list[Path]:
    """Write the page, the picture and the table into a folder; ``how_to_fit`` are the lines that fit the best model."""
    picture = io.BytesIO()
    draw_comparison(result).savefig(picture, format="png")
    html = page_template("comparison.html", Path(__file__).parent).render(
        title=TITLE,
        note=note,
        verdict=verdict(result),
        picture=png_uri(picture.getvalue()),
        picture_text=_picture_text(result),
        tables=[measures_table(result), differences_table(result)],
        how_to_fit=how_to_fit,
        today=date.today().isoformat(),
        version=version("bagwise"),
    )
    paths = [folder / f"comparison.{kind}" for kind in ("csv", "png", "html")]
    write_table(result.to_frame(), paths[0])
    write_whole(paths[1], lambda stream: stream.write(picture.getvalue()))
    write_whole(paths[2], lambda stream: stream.write(html.encode("utf-8", errors="backslashreplace")))
    return paths


def _picture_text(result: ComparisonResult) -> str:
    """The picture in words, for those who do not see it."""
    means = {name: result.mean(name).mean for name in result.names}
    shown = [f"{name} {number_text(mean)}" for name, mean in means.items() if not math.isnan(mean)]
    return f"Mean {in_words(result.metric)} of every model: {', '.join(shown)}."
