"""Columns that say something about bags: which go together."""

import pytest
from tests.cli.command import done, refused
from tests.cli.tables import FIXED

import bagwise


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fraction", "share", "--model", "mil-gp-probit"), "--fraction share: mil-gp-probit takes label; "),
        (("--fraction", "share", "--model", "mil-gp-probit"), "is for bag-gp"),
        (("--label", "label", "--known", "seen", "--model", "mil-gp-probit"), "--known seen: mil-gp-probit takes"),
        (("--fraction", "share", "--set", "evidence=count"), "--set evidence=count: contradicts --fraction share"),
        (("--label", "label", "--fraction", "share"), "--label label and --fraction share: what is known"),
        (("--count", "lo,hi,share"), "3 outcomes add up to"),
        (("--fraction", "share,lo"), "2 outcomes add up to"),
        (("--known", "seen"), "nothing is stated about the bags"),
        (("--fraction", "cancer"), "y must hold numbers"),
        (("--fraction", "other2"), "no column 'other2'"),
        (("--label", "label", "--known", "other2"), "no column 'other2'"),
        (("--label", "label", "--known", "u"), "column 'u' is named both"),
        (("--label", "label", "--known", "hi"), "column 'hi': known: row"),
        (("--fraction", "hi"), "a fraction lies in [0, 1]"),
        (("--count", "hi,lo"), "the lowest number of positives must not exceed the highest"),
        (("--fraction", "bad"), "varies inside the bag"),
    ],
)
def test_evidence_that_cannot_be_used(counted, tmp_path, options, message):
    arguments = ("--bag", "slide", "--features", "u,v,w", "-o", tmp_path / "model", *options)
    assert message in refused("fit", counted / "x.csv", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_same_evidence_said_twice_is_no_contradiction(counted, tmp_path):
    done("fit", counted / "x.csv", "--bag", "slide", "--features", "u,v,w", "--fraction", "share", "-o",
         tmp_path / "model", "--set", "evidence=fraction", "--set", "confidence=50", *FIXED)  # fmt: skip
    assert bagwise.load(tmp_path / "model").confidence == 50.0
