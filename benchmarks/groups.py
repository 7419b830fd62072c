"""Learning about individuals from group statistics: the figures of Kück & de Freitas, speed, and real groups.

Run: python -m benchmarks.groups [--data DIR] [--part figure2 figure3 speed adult ecological] [--seeds 10] [--jobs 2]
[--pictures DIR]
"""

import argparse
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import BagGP, Bags, GroupKernelMachine
from bagwise.datasets import make_groups, wave
from bagwise.plots import CURVES, DecisionMapDisplay

DATA = Path(__file__).parents[2] / "shared" / "data"
FIGURE2 = {"group_size": [19, 16, 20], "positives": [14, 4, 17], "boundary": "wave", "random_state": 4}
SAID = np.array([0.73, 0.25, 0.85])  # as printed
LOCAL = {"lengthscale": 1.0, "n_chains": 4, "z_update": "exact", "scale_step": True}  # exp(-r²/2); chains that mix
PARTS = ("figure2", "figure3", "speed", "adult", "ecological")


def fitted(model, bags, y):
    """The model and the seconds it took; the chains are known not to have mixed."""
    torch.set_num_threads(1)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(bags, y)
    return model, time.process_time() - start


def area(model, bags, truth):
    return roc_auc_score(truth, model.predict_instance_proba(bags)[:, 1])


# ---------------------------------------------------------------- figure 2


def figure2_cell(seed):
    """The model, and AUC on the points, accuracy on new ones, active kernels, seconds."""
    bags, _, truth = make_groups(**FIGURE2)
    model, seconds = fitted(GroupKernelMachine.published(random_state=seed, **LOCAL), bags, SAID)
    new = np.random.default_rng(0).normal(size=(4000, 2))
    right = np.mean((model.predict_instance_proba(new)[:, 1] > 0.5) == (wave(new) > 0))
    return model, (area(model, bags, truth), right, model.n_active_, seconds)


def figure2(options):
    bags, _, truth = make_groups(**FIGURE2)
    cells = Parallel(options.jobs)(delayed(figure2_cell)(seed) for seed in range(options.seeds))
    models, found = zip(*cells, strict=True)
    (auc, right, active, seconds), (auc_sd, right_sd, active_sd, _) = np.mean(found, 0), np.std(found, 0)
    print(f"three groups, fractions {SAID}, {options.seeds} seeds: AUC {auc:.3f} ± {auc_sd:.3f} on the 55 points,")
    print(f"accuracy {right:.3f} ± {right_sd:.3f} on 4,000 new ones, {active:.1f} ± {active_sd:.1f} active kernels")
    print(f"(published: 15), {seconds:.1f} s for 4 chains")
    _save(_draw_figure2(models[0], bags, truth), options.pictures, "group_figure2.png")


def _draw_figure2(model, bags, truth):
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.9), layout="constrained")
    display = DecisionMapDisplay.from_estimator(model, bags, instance_y=truth, ax=right, resolution=120)
    across, up = display.across, display.up
    heights = wave(np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)).reshape(len(up), len(across))
    right.contour(across, up, heights, levels=[0.0], colors="black", linestyles="dashed", linewidths=1.0)
    _say_what_the_marks_mean(figure, right)
    right.set_title("learned from three numbers\n(full line: one half; dashed: the truth)", loc="left", fontsize=10)
    for name, colour, number in zip("ABC", CURVES, range(3), strict=False):
        for x, y in bags.X[bags.index == number]:
            left.text(x, y, name, color=colour, ha="center", va="center", fontsize=9)
    shares = ", ".join(f"{name} {share:.2f}" for name, share in zip("ABC", SAID, strict=True))
    left.set_title(f"what is known: three groups,\npositive fractions {shares}", loc="left", fontsize=10)
    left.set(xlim=right.get_xlim(), ylim=right.get_ylim(), xlabel="feature 0", ylabel="feature 1")
    return figure


# ---------------------------------------------------------------- figure 3


def figure3_models(seed):
    return {
        "GroupKernelMachine": lambda kind: GroupKernelMachine.published(evidence=kind, random_state=seed, **LOCAL),
        "BagGP": lambda kind: BagGP(evidence=kind, n_inducing=100, random_state=seed, standardize=False),
    }


def figure3_cell(name, kind, seed):
    bags, fractions, truth = make_groups(random_state=seed)
    fresh, _, fresh_truth = make_groups(random_state=1000 + seed)
    y = fractions if kind == "fraction" else (fractions > 0).astype(int)
    model, seconds = fitted(figure3_models(seed)[name](kind), bags, y)
    return area(model, bags, truth), area(model, fresh, fresh_truth), seconds


def figure3(options):
    names = list(figure3_models(0))
    cells = [(name, kind, seed) for name in names for kind in ("fraction", "label") for seed in range(options.seeds)]
    found = np.array(Parallel(options.jobs)(delayed(figure3_cell)(*cell) for cell in cells))
    found = found.reshape(len(names), 2, options.seeds, 3)
    print(
        f"600 points, 75 groups of 8, 62 negative; AUC of instances over {options.seeds} seeds (published .922, .885)\n"
    )
    print("| model | from | AUC, training | AUC, new points | s |\n|---|---|---|---|---|")
    for name, both in zip(names, found, strict=True):
        for kind, rows in zip(("fractions", "labels"), both, strict=True):
            mean, sd = rows.mean(0), rows.std(0)
            print(f"| {name} | {kind} | {mean[0]:.3f} ± {sd[0]:.3f} | {mean[1]:.3f} ± {sd[1]:.3f} | {mean[2]:.1f} |")
        ahead = (both[0, :, 0] > both[1, :, 0]).sum()
        print(f"| | | fractions ahead in {ahead} of {options.seeds} | | |", flush=True)
    _save(_draw_figure3(), options.pictures, "group_figure3.png")


def _draw_figure3():
    bags, fractions, truth = make_groups(random_state=0)
    make = figure3_models(0)
    told = [("GroupKernelMachine", "label"), ("GroupKernelMachine", "fraction"), ("BagGP", "fraction")]
    figure, axes = plt.subplots(1, 3, figsize=(11.4, 3.7), layout="constrained", sharey=True)
    for ax, (name, kind) in zip(axes, told, strict=True):
        model, _ = fitted(make[name](kind), bags, fractions if kind == "fraction" else (fractions > 0).astype(int))
        DecisionMapDisplay.from_estimator(model, bags, instance_y=truth, ax=ax, resolution=100, size=7)
        ax.set(xlim=(-4, 5), ylim=(-4, 5))
        ax.set_title(f"{name}, {kind}s\nAUC {area(model, bags, truth):.3f}", loc="left", fontsize=10)
    _say_what_the_marks_mean(figure, axes[0])
    return figure


def _say_what_the_marks_mean(figure, ax):
    handles, _ = ax.get_legend_handles_labels()
    figure.legend(
        handles,
        ["really negative", "really positive"],
        loc="outside lower right",
        ncols=2,
        frameon=False,
        markerscale=2,
    )


# ---------------------------------------------------------------- speed


def speed(options):
    print("1,000 + 1,000 sweeps, one thread\n\n| problem | chains | s | ms per sweep | bar |\n|---|---|---|---|---|")
    two, three = make_groups(**FIGURE2)[0], make_groups(random_state=0)[:2]
    for name, bags, y, bar in (("figure 2", two, SAID, 6), ("figure 3", *three, 20)):
        for n_chains in (1, 4):
            stamps = []
            settings = {**LOCAL, "n_chains": n_chains, "random_state": 0}
            model = GroupKernelMachine.published(
                callback=lambda *_, s=stamps: s.append(time.process_time()), **settings
            )
            fitted(model, bags, y)
            seconds = (stamps[-1] - stamps[0]) * len(stamps) / (len(stamps) - 1)
            print(f"| {name} | {n_chains} | {seconds:.1f} | {1e3 * seconds / len(stamps):.2f} | {bar} s |", flush=True)


# ---------------------------------------------------------------- adult, 200 groups


def adult(options):
    """200 groups of 25 persons: dealt at random, and neighbourhoods where like live with like."""
    X, y, test = _adult(options.data)
    supervised = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(X[~test], y[~test])
    print("adult, 200 groups of 25 persons; AUC on the 16,281 test persons\n")
    print("| model | known | AUC | s |\n|---|---|---|---|")
    best = roc_auc_score(y[test], supervised.decision_function(X[test]))
    print(f"| logistic regression | 32,561 labels | {best:.3f} | |")
    for name, groups in _adult_groups(X, test).items():
        rows = np.flatnonzero(groups >= 0)
        bags = Bags(X[rows], groups[rows])
        shares = np.bincount(bags.index, y[rows][bags.rows]) / bags.sizes
        for model in (
            BagGP(evidence="fraction", n_inducing=100, random_state=0),
            GroupKernelMachine(n_centres=300, lengthscale=2 * np.sqrt(X.shape[1]), constant=True, random_state=0),
        ):
            found, seconds = fitted(model, bags, shares)
            area_ = roc_auc_score(y[test], found.predict_instance_proba(X[test])[:, 1])
            learning = found.fit_record().learning
            how = "" if learning is None else f", {learning.name}"
            print(f"| {type(model).__name__}{how} | fractions, {name} | {area_:.3f} | {seconds:.0f} |", flush=True)


def _adult(folder):
    with np.load(Path(folder) / "adult.npz", allow_pickle=False) as file:
        data = {key: file[key] for key in file.files}
    wanted = [c for c in data["columns"] if c not in ("fnlwgt", "native_country", "education")]
    parts = []
    for name in wanted:
        values = data["X"][:, list(data["columns"]).index(name)].astype(float)[:, None]
        values = np.log1p(values) if name.startswith("capital") else values
        parts.append((values == np.unique(values)).astype(float) if f"cat_{name}" in data else values)
    X = np.column_stack(parts)
    return X, data["instance_y"].astype(float), data["test"].astype(bool)


def _adult_groups(X, test, n_groups=200, size=25):
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero(~test))[: n_groups * size]
    random, alike = np.full(len(X), -1), np.full(len(X), -1)
    random[rows] = np.arange(len(rows)) // size
    age, hours = StandardScaler().fit_transform(X[rows][:, [0, -1]]).T
    order = np.argsort(age + hours + rng.normal(size=len(rows)))
    alike[rows[order]] = np.arange(len(rows)) // size
    return {"random groups": random, "groups of similar age and working hours": alike}


# ---------------------------------------------------------------- ecological inference


def ecological(options, persons=10):
    """Counties with two groups of people: what the shares of both tell of the rates in each."""
    print("counties as groups of persons who are in group 1 or 2; W1 and W2 are the rates in the two groups\n")
    print("| set | method | W1, mean (truth) | W2, mean (truth) | county error of W1 | of W2 |")
    print("|---|---|---|---|---|---|")
    for name in ("ei_registration_south", "ei_census1910_literacy"):
        with np.load(Path(options.data) / f"{name}.npz", allow_pickle=False) as file:
            data = {key: file[key] for key in file.files}
        for method, rates in _ecological_methods(data, persons).items():
            means = [f"{rate.mean():.3f} ({data[w].mean():.3f})" for rate, w in zip(rates, ("W1", "W2"), strict=True)]
            errors = [
                f"{np.sqrt(np.mean((rate - data[w]) ** 2)):.3f}" for rate, w in zip(rates, ("W1", "W2"), strict=True)
            ]
            print(f"| {name} | {method} | {' | '.join(means)} | {' | '.join(errors)} |", flush=True)
        low, high = bounds(data["X"], data["Y"])
        print(f"| | what Y and X alone leave possible for W1 | {low.mean():.3f} to {high.mean():.3f} | | | |")
        print(f"| | the best possible constants | | | {data['W1'].std():.3f} | {data['W2'].std():.3f} |", flush=True)


def bounds(share, rate):
    """W1 between these, from Y = X W1 + (1 − X) W2 with both rates in [0, 1]."""
    share = np.maximum(share, 1e-9)
    return np.clip((rate - (1 - share)) / share, 0, 1), np.clip(rate / share, 0, 1)


def _ecological_methods(data, persons):
    share, rate = data["X"], data["Y"]
    slope = np.linalg.lstsq(np.column_stack([share, 1 - share]), rate, rcond=None)[0]
    methods = {
        "both groups alike (W = Y)": (rate, rate),
        "regression on X (Goodman)": (np.full(len(rate), slope[0]), np.full(len(rate), slope[1])),
    }
    for label, columns in (("group only", 1), ("group, and share of group 1 in the county", 2)):
        bags = county_bags(share, persons, columns)
        for name, model in (
            ("GroupKernelMachine", GroupKernelMachine(confidence=50.0, n_centres=60, constant=True, random_state=0)),
            ("BagGP", BagGP(evidence="fraction", confidence=50.0, n_inducing=30, random_state=0)),
        ):
            found, _ = fitted(model, bags, rate)
            methods[f"{name}, {label}"] = tuple(
                found.predict_instance_proba(np.column_stack([np.full(len(share), one), share])[:, :columns])[:, 1]
                for one in (1.0, 0.0)
            )
    return methods


def county_bags(share, persons, columns):
    """So many persons of every county, of the two groups in their shares."""
    first = np.round(share * persons).astype(int)
    group = (np.arange(persons) < first[:, None]).astype(float)
    rows = np.stack([group, np.broadcast_to(share[:, None], group.shape)], axis=-1).reshape(-1, 2)
    return Bags(rows[:, :columns], np.repeat(np.arange(len(share)), persons))


def _save(figure, folder, name):
    if folder is not None:
        figure.savefig(Path(folder) / name, dpi=85)
    plt.close(figure)


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pictures", type=Path, default=None)
    options = parser.parse_args(arguments)
    for part in options.part:
        print(f"\n### {part}\n", flush=True)
        globals()[part](options)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
