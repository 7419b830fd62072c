"""What a model file says of itself is checked field by field."""

import numpy as np
import pytest
from tests.model_files import changed, fixture, places, put

import bagwise
from bagwise import Bags, ModelFileError
from bagwise.persistence import read_model

WRONG = [None, True, -1, 2**70, 0.5, 1e308, "text", "\ud800", [], [None], ["a", 1], {}, {"a": [1]}, [[[0]]]]


@pytest.mark.parametrize("name", ["bag_gp_map", "gpmil_hard", "miplgp_exact", "group_kernel_machine"])
def test_wrong_value_in_any_field_is_refused_or_harmless(tmp_path, name):
    description, _ = read_model(fixture(name))
    with np.load(fixture(name).with_suffix(".npz")) as known:
        bags = Bags(known["X"], known["index"])[:2]
    random = np.random.default_rng(0)
    every = [place for place in places(description) if place[:2] != ("chains", "names")]
    refused = 0
    for place in every:
        for wrong in random.choice(len(WRONG), 3, replace=False):
            path = changed(name, tmp_path / "model", put(WRONG[wrong], *place))
            try:
                model = bagwise.load(path)
            except ModelFileError:
                refused += 1
            else:
                assert np.isfinite(model.predict_proba(bags)).all(), (place, WRONG[wrong])
    assert refused > len(every)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("parameters",), 5),
        (("features", "bias"), "big"),
        (("features", "origin"), 5),
        (("fitted", "seed"), 1.5),
        (("fitted", "classes"), {"a": 1}),
        (("fitted", "feature_names"), [1, 2]),
        (("fitted", "columns"), {"bag": ["x"]}),
        (("fitted", "columns"), {"label": "x"}),
        (("fitted", "log_evidence"), "high"),
        (("fitted", "own"), []),
        (("traces", "trace_"), {"name": "x"}),
        (("parameters", "bias"), [1, 2]),
        (("parameters", "bias"), {"float": 3}),
        (("posterior",), "oracle"),
        (("link",), ["probit"]),
        (("chains",), {"names": [1], "labels": None}),
        (("fitted", "label_names"), ["\ud800"]),
        (("fitted", "label_names"), []),
    ],
)
def test_wrong_type_is_refused_by_the_name_of_its_field(tmp_path, place, value):
    path = changed("vgpmil", tmp_path / "model", put(value, *place))
    with pytest.raises(ModelFileError, match=rf"incomplete or damaged: {'.'.join(place)} is .*, expected"):
        bagwise.load(path)
