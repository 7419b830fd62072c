"""Summaries as Markdown and as one self-contained HTML page. What both say is put together once, as blocks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bagwise.bench.description import Published
from bagwise.bench.progress import duration
from bagwise.bench.summary import MEAN_ROW, Comparison, Cost, Entry, Summary

_NONE = "–"
_WORDS = {
    "auc": "AUC",
    "log_likelihood": "log-likelihood",
    "average_precision": "average precision",
    "recall_at_precision_90": "recall at precision .9",
}
_TITLE = "Published and measured"
_HOW_TO_READ = (
    "Every entry is the measured mean ± its standard error over test folds and repeats (in the row of means: over "
    "rows); behind it, by the number of its place in the papers, the published figure and measured minus published."
)
_TESTS = (
    "Rows with a higher / equal / lower mean, measured and in the published figures; rows won / tied / lost by a "
    "paired t-test over folds and repeats at 0.05, as published, and with its variance corrected for training sets "
    "that overlap (Nadeau & Bengio); p of Wilcoxon's signed-rank test over the rows."
)


class GridEntry(NamedTuple):
    """An entry of a grid: what was measured, how surely, and what was published."""

    measured: str
    spread: str
    published: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.measured and f"**{self.measured}**", self.spread, self.published)))


@dataclass(frozen=True)
class Grid:
    """A table to print."""

    name: str
    header: list[str]
    rows: list[list[str | GridEntry]]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """All that is written about one table of a paper."""

    name: str
    title: str
    paragraphs: list[str]
    places: list[str]
    grids: list[Grid]
    notes: list[str] = field(default_factory=list)


def markdown_page(summaries: Sequence[Summary]) -> str:
    """The summaries as Markdown."""
    return "\n".join(line for summary in summaries for line in _markdown(section_of(summary)))


def html_page(summaries: Sequence[Summary]) -> str:
    """The summaries as one page that needs nothing else."""
    from bagwise.report.templates import page_template  # here, so that measuring needs no more than the models do

    sections = [section_of(summary) for summary in summaries]
    written = {"title": _TITLE, "how_to_read": _HOW_TO_READ, "today": date.today().isoformat(), "mean_row": MEAN_ROW}
    return page_template("page.html", Path(__file__).parent).render(
        written, sections=sections, version=version("bagwise")
    )


def section_of(summary: Summary) -> Section:
    """The blocks of one table."""
    table = summary.table
    places = list(dict.fromkeys(figure.place for figure in table.published))
    grids = [_metric_grid(summary, metric, places) for metric in table.metrics]
    grids += [_comparison_grid(summary.comparisons())] if summary.comparisons() else []
    grids += [_cost_grid(summary)]
    absent = [f"Not rebuilt: {text}" for text in table.absent]
    failures = [f"Failed: {record['key']}: {record['error']}" for record in summary.failed]
    return Section(
        table.name,
        table.title,
        [table.source, table.protocol, _extent(summary)],
        places,
        [grid for grid in grids if grid.rows],
        [*table.remarks, *absent, *failures],
    )


def _extent(summary: Summary) -> str:
    """How much of the table was run, and of how much in the paper."""
    table = summary.table
    repeats = 1 + max((record["repeat"] for record in summary.records), default=-1)
    published = "" if repeats == table.published_repeats else f", of {table.published_repeats} in the paper"
    versions = sorted({f"bagwise {record['versions']['bagwise']}" for record in summary.records})
    kind = "Quick version" if summary.quick else "Full version"
    rounds = f"{repeats} {'repeat' if repeats == 1 else 'repeats'}{published}"
    return f"{kind}: {len(summary.records)} of {summary.n_wanted} cells measured, {rounds}. {', '.join(versions)}."


# ---------------------------------------------------------------- grids


def _metric_grid(summary: Summary, metric: str, places: list[str]) -> Grid:
    measured = [model for model in summary.models if any(summary.entry(r, model, metric) for r in summary.rows)]
    others = [f.model for f in summary.table.published if f.metric == metric and f.model not in measured]
    models = [*measured, *dict.fromkeys(others)]
    rows = [*summary.rows, MEAN_ROW] if summary.table.averaged and len(summary.rows) > 1 else summary.rows
    body: list[list[str | GridEntry]] = [
        [row, *(_grid_entry(summary, row, model, metric, places) for model in models)] for row in rows
    ]
    return Grid(in_words(metric), ["", *models], body)


def _grid_entry(summary: Summary, row: str, model: str, metric: str, places: list[str]) -> GridEntry:
    entry = summary.entry(row, model, metric)
    if entry is None:
        figures = () if row == MEAN_ROW else summary.published(row, model, metric)
        return GridEntry("", "", "; ".join(_figure(figure, places) for figure in figures) or _NONE)
    figures_and_gaps = zip(entry.published, entry.differences, strict=True)
    published = [f"{_figure(figure, places)}, {number_text(gap, sign=True)}" for figure, gap in figures_and_gaps]
    spread = f"± {number_text(entry.error)}{_beside(summary, entry, row, model, metric)}"
    return GridEntry(number_text(entry.mean), spread, "; ".join(published))


def _beside(summary: Summary, entry: Entry, row: str, model: str, metric: str) -> str:
    """In brackets: the pooled figure, and how many folds leave the metric undefined."""
    pooled = summary.pooled(row, model, metric)
    words = [f"pooled {number_text(pooled)}"] if not math.isnan(pooled) else []
    words += [f"{entry.undefined} undefined"] if entry.undefined else []
    return f" ({', '.join(words)})" if words else ""


def _figure(figure: Published, places: list[str]) -> str:
    spread = "" if figure.spread is None else f" ± {number_text(figure.spread)}"
    return f"[{places.index(figure.place) + 1}] {number_text(figure.value)}{spread}"


def _comparison_grid(found: Sequence[Comparison]) -> Grid:
    header = ["", "metric", "higher / equal / lower", "published", "won / tied / lost", "corrected", "p"]
    return Grid("Who is better", header, [_comparison_row(comparison) for comparison in found], _TESTS)


def _comparison_row(c: Comparison) -> list[str | GridEntry]:
    return [
        f"{c.one} against {c.other}",
        in_words(c.metric),
        f"{c.higher} / {c.equal} / {c.lower}",
        _NONE if c.published is None else "{} / {} / {}".format(*c.published),
        f"{c.wins} / {c.ties} / {c.losses}",
        f"{c.corrected_wins} / {c.corrected_ties} / {c.corrected_losses}",
        number_text(c.wilcoxon),
    ]


def _cost_grid(summary: Summary) -> Grid:
    rows = [_cost_row(cost) for cost in summary.costs()]
    total = sum(sum(record["seconds"].values()) for record in summary.records)
    header = ["", "cells", "s per fit", "s per prediction", "with warnings", "failed"]
    return Grid("What it took", header, rows, f"One thread each; together {duration(total)}.")


def _cost_row(cost: Cost) -> list[str | GridEntry]:
    times = [f"{cost.fit_seconds:.2f}", f"{cost.predict_seconds:.2f}"]
    return [cost.model, str(cost.n_cells), *times, str(cost.n_warned), str(cost.n_failed)]


# ---------------------------------------------------------------- words and numbers


def in_words(metric: str) -> str:
    """The name of a metric as one would write it."""
    level, _, name = metric.partition(" ")
    return f"{level} {_WORDS.get(name, name.replace('_', ' '))}".strip()


def number_text(value: float, *, sign: bool = False) -> str:
    """Three digits behind the point, no zero before it, a true minus."""
    if math.isnan(value):
        return _NONE
    text = f"{abs(value):.3f}"
    before = "−" if value < 0 and float(text) > 0 else "+" if sign else ""
    return before + (text[1:] if text.startswith("0.") else text)


# ---------------------------------------------------------------- Markdown


def _markdown(section: Section) -> Iterator[str]:
    yield from (f"# {section.title}", "")
    for text in (*section.paragraphs, _HOW_TO_READ):
        yield from (text, "")
    if section.places:
        yield from ("; ".join(f"[{number}] {place}" for number, place in enumerate(section.places, 1)) + ".", "")
    for grid in section.grids:
        yield from _markdown_grid(grid)
    yield from (f"- {note}" for note in section.notes)
    yield ""


def _markdown_grid(grid: Grid) -> Iterator[str]:
    yield from (f"## {grid.name}", "")
    if grid.caption:
        yield from (grid.caption, "")
    yield _markdown_row(grid.header)
    yield "|---" * len(grid.header) + "|"
    yield from map(_markdown_row, grid.rows)
    yield ""


def _markdown_row(entries: Sequence[Any]) -> str:
    return "| " + " | ".join(str(entry).replace("|", "\\|") for entry in entries) + " |"
