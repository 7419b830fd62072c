"""Settings on the command line are read as what they are."""

import pytest

from bagwise import BagGP, MILGPProbit
from bagwise.cli.options import parse_settings, parse_value
from bagwise.exceptions import BagDataError


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("5", 50, 5),
        ("5", 0.0, 5.0),
        ("1e-3", 1e-6, 1e-3),
        ("None", 25, None),
        ("true", True, True),
        ("False", True, False),
        ("matern32", "rbf", "matern32"),
        ("0.5", None, 0.5),
        ("1,2.5", 1000.0, [1.0, 2.5]),
        ("a,b", None, "a,b"),
    ],
)
def test_values_are_read_as_what_they_are(text, default, value):
    parsed = parse_value(text, default)
    assert parsed == value
    assert type(parsed) is type(value)


def test_settings_are_checked_against_the_model():
    assert parse_settings(["bias=5", "kernel=linear"], MILGPProbit) == {"bias": 5.0, "kernel": "linear"}
    with pytest.raises(BagDataError, match=r"no setting 'biass'; it has inference, n_inducing"):
        parse_settings(["biass=5"], MILGPProbit)
    with pytest.raises(BagDataError, match="expected name=value"):
        parse_settings(["bias"], MILGPProbit)
    with pytest.raises(BagDataError, match="no setting 'callback'"):
        parse_settings(["callback=print"], MILGPProbit)
    with pytest.raises(BagDataError, match="no setting 'feature_map'"):
        parse_settings(["feature_map=net"], BagGP)
