"""Tang, Zhang & Zhang, tables 2 and 4."""

from bagwise.bench.description import DataSet, Model, Quick, Table, typed
from bagwise.bench.measure import class_answers
from bagwise.bench.protocols import CandidateHalves

_SETS = ("mnist", "fmnist", "birdsong")
_KEYS = {1: "candidates", 2: "candidates_r2", 3: "candidates_r3"}
_ONE_FALSE = tuple(f"{name}-1" for name in _SETS)
_REST = "one against the rest"
_CONSISTENT = {"kernel": "matern52", "disambiguation": "consistent"}

_TABLE_2 = typed(
    "Tang, Zhang & Zhang, table 2",
    [(model, "bag accuracy") for model in ("MIPLGP", "MIPLGP-uniform", "MIPLGP-naive")],
    """
    mnist-1     0.921±0.018 0.834±0.023 0.522±0.025
    mnist-2     0.712±0.045 0.531±0.070 0.438±0.049
    mnist-3     0.521±0.084 0.206±0.009 0.309±0.072
    fmnist-1    0.806±0.031 0.778±0.031 0.570±0.016
    fmnist-2    0.778±0.042 0.746±0.042 0.468±0.065
    fmnist-3    0.592±0.076 0.226±0.039 0.258±0.045
    birdsong-1  0.628±0.012 0.623±0.013 0.551±0.010
    birdsong-2  0.589±0.020 0.581±0.022 0.511±0.026
    birdsong-3  0.538±0.014 0.526±0.016 0.464±0.019
    """,
)
_TABLE_4 = typed(
    "Tang, Zhang & Zhang, table 4",
    [(model, "bag accuracy") for model in ("VWSGP", "VGPMIL", "LMVGPMIL", "MIVAE")],
    """
    mnist-1     0.402±0.026 0.469±0.047 0.471±0.021 0.793±0.019
    fmnist-1    0.422±0.028 0.455±0.034 0.486±0.036 0.638±0.213
    birdsong-1  0.250±0.047 0.080±0.034 0.081±0.042 0.067±0.091
    """,
)

TABLE = Table(
    name="candidates",
    title="Candidate sets: which class?",
    source="Tang, Zhang & Zhang, Multi-instance partial-label learning, tables 2 and 4.",
    protocol="Class of a bag that is known only as one of r + 1 candidates; half of the bags learn. Matérn kernel "
    "with ν = 2.5. The binary models see every bag once per candidate, labelled with that one, one class "
    "against the rest, as published, and are asked at r = 1 only. Ten splits in the paper.",
    rule=CandidateHalves(),
    measure=class_answers,
    sets=tuple(DataSet(f"{name}-{r}", f"{name}_mipl_rebuilt", key) for name in _SETS for r, key in _KEYS.items()),
    models=(
        Model("MIPLGP", "MIPLGP", {"kernel": "matern52"}, "candidates"),
        Model("MIPLGP-uniform", "MIPLGP", {"kernel": "matern52", "disambiguation": "uniform"}, "candidates"),
        Model("MIPLGP-naive", "MIPLGP", {"kernel": "matern52", "augment": False}, "candidates", quick=False),
        Model("MIPLGP-consistent", "MIPLGP", _CONSISTENT, "candidates", quick=False),
        Model("VGPMIL", "VGPMIL", {"max_iter": 100}, _REST, sets=_ONE_FALSE),
        Model("LMVGPMIL", "LMVGPMIL", {"max_iter": 100}, _REST, quick=False, sets=_ONE_FALSE),
        Model("BagGP", "BagGP", {"learn": False, "kernel": "matern52"}, _REST, sets=_ONE_FALSE),
        Model("SVM", "BagStatisticsSVM", {}, "candidates", sets=_ONE_FALSE),
    ),
    metrics=("bag accuracy", "instance accuracy"),
    quick=Quick(("mnist-1",)),
    published=_TABLE_2 + _TABLE_4,
    repeats=2,
    published_repeats=10,
    comparisons=(
        ("MIPLGP", "MIPLGP-uniform"),
        ("MIPLGP-uniform", "MIPLGP-naive"),
        ("MIPLGP-consistent", "MIPLGP"),
        ("MIPLGP", "VGPMIL"),
        ("MIPLGP", "LMVGPMIL"),
        ("MIPLGP", "BagGP"),
        ("MIPLGP", "SVM"),
    ),
    remarks=(
        "The data are rebuilt after the paper's description with other draws and 10 % positive instances per bag: "
        "orders can be compared, digits cannot. In birdsong, training and test bags share segments.",
        "BagGP keeps its kernel as given; the SVM takes every candidate for a label, since it cannot learn from bags "
        "that are there twice with opposite labels.",
        "Classes of instances include none of them; nine in ten instances belong to no class.",
    ),
    absent=(
        "Newsgroups-MIPL and SIVAL-MIPL: neither the published files nor SIVAL's features are to be had.",
        "the partial-label methods of table 2 (PL-kNN, CLPL, LSB-CMM, SURE, GM-PLL, PL-AGGD): not part of bagwise.",
    ),
)
