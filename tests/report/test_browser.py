"""The report in a real browser: search, sort, keyboard, dark mode, narrow screens, hostile names: ``make browser``."""

import os

import numpy as np
import pandas as pd
import pytest
from tests.report.test_table import HOSTILE, some_bags

from bagwise import MILGPProbit
from bagwise.datasets import make_bags
from bagwise.report import write_report

pytestmark = pytest.mark.browser
LONG = "hospital-north/patient-000017/" + "a-very-long-name-without-a-space-" * 4


@pytest.fixture(scope="module")
def model():
    bags, y, _ = make_bags(20, (2, 4), 2, random_state=0)
    return MILGPProbit(n_inducing=5, max_iter=3, random_state=0).fit(bags, np.array(["healthy", "tumour"])[y])


@pytest.fixture(scope="module")
def bags():
    return some_bags([LONG, *(f"slide {number}" for number in range(149))], sizes=2)


@pytest.fixture(scope="module")
def report(tmp_path_factory, model, bags):
    """A report of 150 bags with labels, labels of instances and a column of the user's own."""
    there, count = tmp_path_factory.mktemp("report"), len(bags)
    y = np.array(["healthy", "tumour"])[np.arange(count) % 2]
    about = pd.DataFrame({"hospital": np.array(["North", "South"])[np.arange(count) // 75]}, index=list(bags.ids))
    instance_y = np.array(["healthy", "tumour"])[np.arange(bags.n_instances) % 2]
    return write_report(model, bags, y, there / "report.html", instance_y=instance_y, about=about)


@pytest.fixture
def opened(browser):
    """Opens a file; whatever is executed or asked of a network fails the test."""
    pages = []

    def open_file(path, **options):
        page = browser.new_page(**options)
        pages.append(page)
        page.on("dialog", lambda dialog: pytest.fail(f"something was executed: {dialog.message}"))
        page.on("pageerror", lambda error: pytest.fail(f"the script of the page failed: {error}"))
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        assert all(url.startswith(("file:", "data:")) for url in asked)
        return page

    yield open_file
    for page in pages:
        page.close()


def names(page):
    return page.locator("#bag-table tbody tr td:first-child").all_inner_texts()


def test_table_is_searched_by_name_and_by_the_columns_of_the_user(opened, report):
    page = opened(report)
    assert len(names(page)) == 100
    page.fill("#bag-search", "slide 14")
    assert set(names(page)) == {f"slide {number}" for number in (14, 114, *range(140, 149))}
    page.fill("#bag-search", "14 SOUTH")
    assert set(names(page)) == {f"slide {number}" for number in (114, *range(140, 149))}
    assert page.locator("#bag-status").inner_text() == "Showing 10 of 10 bags that match the search."
    page.fill("#bag-search", "")
    page.click("#bag-more")
    assert len(names(page)) == 150


def test_table_is_sorted_by_mouse_and_by_keyboard(opened, report, model, bags):
    page = opened(report)
    by_probability = [bags.ids[n] for n in np.argsort(-model.predict_proba(bags)[:, 1], kind="stable")]
    assert names(page) == by_probability[:100]
    name = page.locator("#bag-table th").first
    name.locator("button").click()
    assert name.get_attribute("aria-sort") == "ascending"
    assert names(page)[1:4] == ["slide 0", "slide 1", "slide 2"]  # 2 before 10
    page.locator("#bag-search").focus()
    for key in ("Tab", "Tab", "Enter"):  # the region that scrolls, then the first heading
        page.keyboard.press(key)
    assert name.get_attribute("aria-sort") == "descending"
    assert names(page)[0] == "slide 148"


def colours(page, *selectors):
    return [page.locator(found).first.evaluate("one => getComputedStyle(one).backgroundColor") for found in selectors]


def test_dark_screens_get_a_dark_page_and_paper_a_white_one(opened, report):
    light, dark = (opened(report, color_scheme=scheme) for scheme in ("light", "dark"))
    assert colours(light, "body") == ["rgb(255, 255, 255)"]
    assert colours(dark, "body") == ["rgb(22, 25, 29)"]
    dark.emulate_media(media="print", color_scheme="dark")
    assert colours(dark, "body") == ["rgb(255, 255, 255)"]
    assert dark.locator("#bag-tools").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_report_with_long_names_fits_the_screen(opened, report, width, scheme):
    page = opened(report, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if "BAGWISE_PICTURES" in os.environ:
        page.screenshot(path=f"{os.environ['BAGWISE_PICTURES']}/report_{width}_{scheme}.png", full_page=True)


def test_thirty_hostile_names_are_shown_as_text_and_execute_nothing(opened, tmp_path):
    bags, y, _ = make_bags(20, (2, 4), 2, random_state=0)
    classes = np.array(["<b>no</b>", "<img src=x onerror=alert(1)>"])
    model = MILGPProbit(n_inducing=5, max_iter=3, random_state=0).fit(bags, classes[y])
    about = pd.DataFrame({"<script>alert(2)</script>": HOSTILE}, index=HOSTILE)
    path = write_report(
        model, some_bags(HOSTILE), None, tmp_path / "r.html", title=HOSTILE[1], note=HOSTILE[0], about=about
    )
    page = opened(path)
    assert page.title() == HOSTILE[1]
    assert page.locator("script").count() == 2  # the data of the table and its script
    assert page.locator("#bag-table img, #bag-table svg, #bag-table a, iframe, base").count() == 0
    page.locator("#bag-table th button").first.click()
    shown = page.locator("#bag-table tbody tr td:first-child").evaluate_all("all => all.map(one => one.textContent)")
    assert sorted(shown) == sorted(HOSTILE)
    for name in HOSTILE:
        page.fill("#bag-search", name)
    assert page.evaluate("document.querySelectorAll('*[onerror], *[onload], *[onfocus], *[onmouseover]').length") == 0
