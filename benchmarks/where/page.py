"""Tables, pictures and all figures as a CSV file, put between two marks of a page."""

import csv
import io

import numpy as np

from bagwise._files import write_whole
from benchmarks.where.picture import draw
from benchmarks.where.results import Results
from benchmarks.where.sets import family_of, spoken_name
from benchmarks.where.table import METRICS

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SPOKEN = {"accuracy": "accuracy", "auc": "AUC", "log_likelihood": "log-likelihood"}


def write_page(results, page):
    """Replace what stands between the marks; the picture goes to ``pictures``, the figures lie beside the page."""
    found = Results.read(results)
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page}: has no lines {BEGIN} and {END} to put the tables between.")
    picture = page.parent / "pictures" / f"{page.stem}.png"
    draw({SPOKEN[metric]: ranks for metric, ranks in found.rankings().items()}, picture)
    figures = page.with_suffix(".csv")
    write_text(figures, as_csv(found))
    body = [extent(found), "", f"![Mean ranks]({picture.relative_to(page.parent)})", "", *tables(found)]
    body += ["", f"All figures, with standard errors and seconds: [{figures.name}]({figures.name})."]
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_text(page, f"{before}{BEGIN}\n\n" + "\n".join(body) + f"\n\n{END}{after}")


def write_text(path, text):
    write_whole(path, lambda stream: stream.write(text.encode("utf-8")))


def extent(found):
    counts = [len(records) for records in found.records.values()]
    folds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    size = f"{len(found.sets)} data sets, {len(found.models)} models"
    return f"{size}, test folds measured of each set: {folds}; {sum(counts)} fits."


def tables(found):
    for title, table in (
        ("Mean ranks", rank_table(found)),
        ("Mean AUC by family of data sets", family_table(found)),
        ("The best model on every set", winner_table(found)),
        ("How BagGP settled", settled_table(found)),
        ("What did not finish", complaint_table(found)),
    ):
        if len(table) > 2:
            yield from (f"### {title}", "", *table, "")


def rank_table(found):
    rankings = found.rankings()
    ranks = {metric: dict(zip(one.models, one.means, strict=True)) for metric, one in rankings.items()}
    by = [f"rank by {SPOKEN[metric]}" for metric in METRICS]
    rows = head(["model", *by, "first by AUC", "seconds a fit", "sets not finished"])
    first = [found.models[int(np.nanargmax(row))] for row in found.means("auc")]
    for model in rankings["auc"].models:
        own = [f"{ranks[metric][model]:.1f}" for metric in METRICS]
        rows.append(line([model, *own, first.count(model), f"{found.seconds(model):.1f}", found.unfinished(model)]))
    return [*rows, line(["Friedman, p", *(f"{rankings[metric].p:.1g}" for metric in METRICS), "", "", ""])]


def family_table(found):
    families = list(dict.fromkeys(map(family_of, found.sets)))
    rows = head(["model", *families])
    means = {family: found.means("auc", [s for s in found.sets if family_of(s) == family]) for family in families}
    overall = found.rankings()["auc"].models
    for model in overall:
        place = found.models.index(model)
        rows.append(line([model, *(share(float(np.mean(means[family][:, place]))) for family in families)]))
    return rows


def winner_table(found):
    rows = head(["data set", *(f"best by {SPOKEN[m]}" for m in METRICS), "bag-gp, AUC", "its place"])
    for name in found.sets:
        best = [found.models[int(np.nanargmax(found.means(metric, [name])[0]))] for metric in METRICS]
        cells = [f"{model} {measured(found, name, model, m)}" for model, m in zip(best, METRICS, strict=True)]
        rows.append(line([spoken_name(name), *cells, *own_place(found, name)]))
    return rows


def own_place(found, name, model="bag-gp"):
    """AUC of one model on a set, and how many are better."""
    if model not in found.models:
        return ["–", "–"]
    row = found.means("auc", [name])[0]
    own = row[found.models.index(model)]
    place = "–" if np.isnan(own) else 1 + int((row > own).sum())
    return [measured(found, name, model, "auc"), place]


def settled_table(found, model="bag-gp"):
    """Sweeps of the final inference, after the kernel was learned; a fallback or an unsettled fit would have warned."""
    rows = head(["data set", "iterations", "processor seconds", "warnings"])
    for name in found.sets if model in found.models else []:
        figures = f"{found.iterations(name, model):.0f}", f"{found.seconds(model, name):.1f}"
        rows.append(line([spoken_name(name), *figures, found.n_warnings(name, model)]))
    return rows


def complaint_table(found):
    rows = head(["model", "what was said", "cells"])
    rows += [line([model, text, count]) for (model, text), count in sorted(found.complaints().items())]
    return rows


def measured(found, name, model, metric):
    error = found.error(name, model, metric)
    return share(found.mean(name, model, metric)) + ("" if np.isnan(error) else f" ± {share(error)}")


def share(value):
    return "–" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def head(entries):
    return [line(entries), "|---" * len(entries) + "|"]


def line(entries):
    return "| " + " | ".join(str(entry).replace("|", "\\|") for entry in entries) + " |"


def as_csv(found):
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["set", "model", *(f"{m}{kind}" for m in METRICS for kind in ("", "_error")), "seconds", "iterations"]
    )
    for name in found.sets:
        for model in found.models:
            pairs = [(found.mean(name, model, m), found.error(name, model, m)) for m in METRICS]
            row = [*(value for pair in pairs for value in pair), found.seconds(model, name)]
            row.append(found.iterations(name, model))
            writer.writerow([name, model, *("" if np.isnan(value) else f"{value:.4g}" for value in row)])
    return stream.getvalue()
