"""Tables as pages."""

import math

import numpy as np
from tests.bench.summaries import summary_of
from tests.bench.tiny_table import tiny_table

from bagwise.bench.render import html_page, in_words, markdown_page, number_text
from bagwise.bench.summary import summarise


def test_pages_say_published_measured_and_difference(values):
    summary = summary_of(values)
    mean = np.mean(values["calm", "probit"])
    text = markdown_page([summary])
    assert f"**{number_text(mean)}** ± " in text
    assert f"[1] .750 ± .020, {number_text(mean - 0.75, sign=True)}" in text
    assert "12 of 18 cells" in text
    page = html_page([summary])
    assert f"<b>{number_text(mean)}</b>" in page
    assert "Tiny &lt;waves&gt; &amp; bags" in page
    assert "a &lt; b" in page
    assert "<script" not in page
    assert "http" not in page


def test_numbers_and_names_read_well():
    assert [number_text(v) for v in (0.5, -0.0364, 3.2038, math.nan)] == [".500", "−.036", "3.204", "–"]
    assert [number_text(v, sign=True) for v in (0.0, 0.1, -0.1, -0.0001)] == ["+.000", "+.100", "−.100", "+.000"]
    assert in_words("instance average_precision") == "instance average precision"
    assert in_words("lengthscale") == "lengthscale"


def test_a_page_of_nothing_is_still_a_page():
    page = html_page([summarise(tiny_table(), [], n_wanted=18)])
    assert "0 of 18 cells measured" in page
