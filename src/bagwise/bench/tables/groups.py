"""Kück & de Freitas, figures 2, 3 and 4."""

from bagwise.bench.description import DataSet, Model, Quick, Table, typed
from bagwise.bench.measure import binary_answers
from bagwise.bench.protocols import GroupTrials

_FIGURE_3 = typed(
    "Kück & de Freitas, figure 3",
    [("GroupKernelMachine", "instance auc"), ("GroupKernelMachine-labels", "instance auc")],
    "figure-3 0.922 0.885",
)
_SPECIES = ("3", "7", "8", "11")  # of the hja birds: enough instances to learn from and to test on
_BIRDS = tuple(f"birds-{number}" for number in _SPECIES)
_FIGURES = ("figure-2", "figure-3")
_MIXING = {"n_chains": 4, "z_update": "exact", "scale_step": True}  # where the paper has one chain and a random walk
_PLANE = {**_MIXING, "lengthscale": 1.0}  # K = exp(-r²/2) in the plane
_KERNEL = ((_FIGURES, _PLANE), (_BIRDS, {**_MIXING, "standardize": True, "n_centres": 200}))

TABLE = Table(
    name="groups",
    title="Fractions of groups: which individuals?",
    source="Kück & de Freitas, Learning about individuals from group statistics, figures 2 to 4.",
    protocol="AUC over individuals, learned from the fraction of positives per group or from the binary label that is "
    "left of it (Gaussian kernel, confidence 1000, four chains). Figures 2 and 3 are generated anew in every "
    "trial and tested on the same individuals and on fresh ones. For figure 4, whose images are not to be "
    "had, the same question is put to the hja birds: the fraction of a class is guessed as one over the "
    "number of a recording's labels; half of the recordings learn.",
    rule=GroupTrials(),
    measure=binary_answers,
    sets=(
        DataSet("figure-2", key="wave", rows=("figure-2", "figure-2-fresh")),
        DataSet("figure-3", key="cluster", rows=("figure-3", "figure-3-fresh")),
        *(DataSet(name, "hja_birdsong", number) for name, number in zip(_BIRDS, _SPECIES, strict=True)),
    ),
    models=(
        *(
            Model("GroupKernelMachine", "GroupKernelMachine", own, "fraction", sets=sets, published=True)
            for sets, own in _KERNEL
        ),
        *(
            Model(
                "GroupKernelMachine-labels",
                "GroupKernelMachine",
                {**own, "evidence": "label"},
                sets=sets,
                published=True,
            )
            for sets, own in ((_FIGURES[1:], _PLANE), _KERNEL[1])
        ),
        Model("BagGP", "BagGP", {"evidence": "fraction"}, "fraction"),
        Model("BagGP-labels", "BagGP", sets=("figure-3", *_BIRDS)),
    ),
    metrics=("instance auc", "instance log_likelihood"),
    quick=Quick(("figure-2", "figure-3")),
    published=_FIGURE_3,
    repeats=10,
    published_repeats=1,
    averaged=False,
    comparisons=(
        ("GroupKernelMachine", "GroupKernelMachine-labels"),
        ("BagGP", "BagGP-labels"),
        ("BagGP", "GroupKernelMachine"),
    ),
    remarks=(
        "The paper gives one AUC each for one data set, and does not say whether it was measured on the training "
        "individuals; it is set beside those. The two Gaussians of figure 3 are guessed from its picture.",
        "In figure 2 every group holds positives, so its labels say nothing: only fractions are learned from there.",
        "An SVM on statistics of groups does not judge individuals, so it has no column here.",
    ),
    absent=("the annotated Corel images of figure 4: neither regions nor their labels are to be had.",),
)
