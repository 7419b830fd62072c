"""The critical-difference picture: mean ranks, and bars over the models that the data sets do not tell apart."""

from matplotlib.figure import Figure

from bagwise.plots import BLUE, GREY, PALE, open_frame


def draw(rankings, path):
    """One panel for every measure; ``rankings`` by its name."""
    most = max(len(ranking.models) for ranking in rankings.values())
    figure = Figure(figsize=(4.3 * len(rankings), 1.2 + 0.22 * most), layout="constrained", dpi=110)
    for ax, (name, ranking) in zip(figure.subplots(1, len(rankings), squeeze=False)[0], rankings.items(), strict=True):
        panel(ax, name, ranking)
    figure.savefig(path, metadata={"Software": None})


def panel(ax, name, ranking):
    heights = range(len(ranking.models))
    ax.hlines(heights, 1.0, ranking.means, color=PALE, linewidth=1.0, zorder=0)
    ax.scatter(ranking.means, heights, s=22, color=[BLUE if m == "bag-gp" else GREY for m in ranking.models], zorder=2)
    bars(ax, ranking)
    ax.set_yticks(heights, ranking.models, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0.5, len(ranking.models) + 0.5)
    ax.set_title(f"{name}, {ranking.n_sets} sets", fontsize=10)
    ax.set_xlabel(f"mean rank; critical difference {ranking.critical:.1f}", fontsize=9)
    open_frame(ax, keep=("bottom",))
    ax.tick_params(axis="y", length=0)


def bars(ax, ranking):
    """A vertical bar from the first to the last model of every clique, right of all their ranks."""
    for first, last in ranking.cliques():
        at = ranking.means[last] + 0.45
        ax.plot([at, at], [first - 0.15, last + 0.15], color="black", linewidth=1.6, solid_capstyle="round", zorder=1)
