"""Settings of quick fits, and how tables become bags."""

from bagwise import Bags

QUICK = ("--set", "n_inducing=10", "--set", "max_iter=4", "--set", "random_state=0")
FIXED = ("--set", "learn=false", "--set", "n_inducing=10", "--set", "random_state=0")


def bags_of(frame, *columns):
    ignored = [name for name in frame.columns if name not in ("u", "v", "w", "slide", *columns)]
    bags, y = Bags.from_frame(frame, "slide", label=list(columns), ignore=ignored)
    return bags, y[:, 0] if len(columns) == 1 else y


def fit_arguments(data, output, *more, label="cancer"):
    return ("fit", data, "--model", "mil-gp-probit", "--bag", "slide", "--label", label, "-o", output, *QUICK, *more)
