"""The table of all bags: complete, small, safe, and its script does what it should (run by Node where there is one)."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.report.test_page import SCRIPTS, Page

import bagwise.report
from bagwise import Bags, MILGPProbit
from bagwise.datasets import make_bags
from bagwise.exceptions import BagDataError
from bagwise.report import write_report
from bagwise.report.answers import class_words

REPORT = Path(bagwise.report.__file__).parent
HOSTILE = [
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>',
    "<svg onload=alert(1)>", "javascript:alert(1)", "<!--", "-->", "<![CDATA[", "]]>", "</td></tr></table>",
    "<iframe src=//x>", "<a href='javascript:alert(1)'>x</a>", "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "{{ 7 * 7 }}", "{% include 'x' %}", "${alert(1)}", "`${alert(1)}`", "\\u003cscript\\u003e", "&lt;script&gt;",
    "&#60;script&#62;", "\u2028alert(1)", "\u2029", "\u202eevil", "\x00", "a\nb", "</title><script>x</script>",
    "</style><script>x</script>", "<base href=//x>", "<meta http-equiv=refresh content=0;url=//x>",
]  # fmt: skip


@pytest.fixture(scope="module")
def model():
    bags, y, _ = make_bags(20, (2, 4), 2, random_state=0)
    return MILGPProbit(n_inducing=5, max_iter=3, random_state=0).fit(bags, y)


def some_bags(names, *, sizes=1):
    rows = np.random.default_rng(0).normal(size=(len(names) * sizes, 2))
    return Bags(rows, np.repeat(np.array(names, dtype=object), sizes))


def data_of(path):
    return json.loads(re.search(r'id="bag-data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_every_bag_is_in_the_table_the_most_probable_first(tmp_path, model):
    bags = some_bags([f"slide {n}" for n in range(250)])
    found = data_of(write_report(model, bags, None, tmp_path / "r.html"))
    p = model.predict_proba(bags)[:, 1]
    assert [row[0] for row in found["rows"]] == [bags.ids[n] for n in np.argsort(-p, kind="stable")]
    np.testing.assert_allclose([row[2] for row in found["rows"]], np.sort(p)[::-1], atol=6e-5)


def test_page_of_ten_thousand_bags_is_smaller_than_three_megabytes(tmp_path, model):
    names = [f"hospital-north/patient-{n:06d}/slide-{n % 7}" for n in range(10_000)]
    y = np.arange(10_000) % 2
    path = write_report(model, some_bags(names), y, tmp_path / "r.html")
    assert path.stat().st_size < 3_000_000
    assert len(data_of(path)["rows"]) == 10_000


def test_page_of_long_names_holds_fewer_bags_and_stays_smaller_than_three_megabytes(tmp_path, model):
    bags = some_bags([f"{n:05d}<" + "<ü" * 150 for n in range(2000)], sizes=1)
    path = write_report(model, bags, None, tmp_path / "r.html")
    assert path.stat().st_size < 3_000_000
    assert 100 < len(data_of(path)["rows"]) < 2000
    assert "can be searched and" in path.read_text(encoding="utf-8")


def test_hostile_names_neither_execute_nor_get_lost(tmp_path, model):
    assert len(set(HOSTILE)) == 30
    harmless = Page(write_report(model, some_bags([f"bag {n}" for n in range(30)]), None, tmp_path / "a.html"))
    about = pd.DataFrame({"<script>x</script>": HOSTILE}, index=HOSTILE)
    path = write_report(model, some_bags(HOSTILE), None, tmp_path / "b.html", title=HOSTILE[1], about=about)
    page = Page(path)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in harmless.tags}
    assert [attributes for tag, attributes in page.tags if tag == "script"] == SCRIPTS
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert sorted(row[0] for row in data_of(path)["rows"]) == sorted(HOSTILE)


def test_classes_are_called_by_their_own_names(tmp_path):
    bags, y, instance_y = make_bags(20, (2, 4), 2, random_state=0)
    words = np.array(["healthy", "tumour"])
    fitted = MILGPProbit(n_inducing=5, max_iter=3, random_state=0).fit(bags, words[y])
    path = write_report(fitted, bags, words[y], tmp_path / "r.html", instance_y=words[instance_y])
    page = Page(path)
    assert "probability of tumour" in page.text
    assert {row[3] for row in data_of(path)["rows"]} == {"healthy", "tumour"}
    assert "negative" not in re.sub("false positive|share of negatives|a negative one", "", page.text)
    assert class_words([0, 1]) == class_words([False, True]) == ("negative", "positive")


def test_own_columns_are_matched_by_the_ids_of_bags(tmp_path, model):
    bags = some_bags(["b", "a"])
    about = pd.DataFrame({"hospital": ["South", "North"]}, index=["a", "b"])
    rows = data_of(write_report(model, bags, None, tmp_path / "r.html", about=about))["rows"]
    assert {row[0]: row[-1] for row in rows} == {"a": "South", "b": "North"}
    with pytest.raises(BagDataError, match="one row per bag, got list"):
        write_report(model, bags, None, tmp_path / "r.html", about=["x"])


def test_pictures_have_texts_and_marks_do_not_rest_on_colour_alone(tmp_path):
    bags, y, instance_y = make_bags(20, (2, 4), 4, random_state=0)
    fitted = MILGPProbit(n_inducing=5, max_iter=3, random_state=0).fit(bags, y)
    page = Page(write_report(fitted, bags, y, tmp_path / "r.html", instance_y=instance_y, image_shape=(2, 2)))
    texts = [attributes["alt"] for tag, attributes in page.tags if tag == "img"]
    assert all(texts)
    assert any("calibration error of bags 0." in text for text in texts)
    assert any("area under the curve of instances" in text for text in texts)
    assert "(known positive)" in page.text
    assert page.count("th", scope="col") > 2
    assert page.count("label", **{"for": "bag-search"}) == 1


# ---------------------------------------------------------------- colours


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, other):
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_can_be_read_in_light_dark_and_print():
    css = (REPORT / "style.css").read_text()
    schemes = [
        dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        for text in ("ink", "soft", "mark"):
            for ground in ("paper", "wash"):
                assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground, scheme)
        for shape in ("blue", "orange"):
            assert contrast(scheme[shape], scheme["paper"]) >= 3.0


# ---------------------------------------------------------------- the script


@pytest.mark.skipif(
    shutil.which("node") is None, reason="the script of the table is tried with Node, which is not here"
)
def test_table_can_be_searched_sorted_and_lengthened(tmp_path, model):
    bags = some_bags([f"slide {n}" for n in range(150)])
    path = write_report(model, bags, None, tmp_path / "r.html")
    (tmp_path / "data.json").write_text(json.dumps(data_of(path)))
    probe = [
        shutil.which("node"),
        Path(__file__).with_name("table_probe.js"),
        REPORT / "table.js",
        tmp_path / "data.json",
    ]
    columns = json.dumps(["bag", "instances", "probability"])
    done = subprocess.run([*map(str, probe), columns], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    by_probability = [bags.ids[n] for n in np.argsort(-model.predict_proba(bags)[:, 1], kind="stable")]
    assert seen["start"]["bags"] == by_probability[:100]
    assert seen["start"]["status"] == "Showing 100 of 150 bags."
    assert seen["start"]["more"]
    assert seen["start"]["sorts"] == ["none", "none", "descending"]
    assert seen["more"]["bags"] == by_probability
    assert not seen["more"]["more"]
    assert seen["by_name"]["bags"] == [f"slide {n}" for n in range(150)]  # 2 before 10
    assert seen["by_name_down"]["bags"] == [f"slide {n}" for n in reversed(range(150))]
    assert seen["by_probability"]["bags"] == by_probability
    assert sorted(seen["searched"]["bags"]) == sorted(name for name in bags.ids if "7" in name)
    assert seen["searched"]["status"].endswith("that match the search.")
    assert seen["nothing"]["bags"] == []
