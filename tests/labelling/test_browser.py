"""The labelling page in a real browser, served by a real process. Run by ``make browser``."""

import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from tests.labelling.desk import HOSTILE

from bagwise import BagGP
from bagwise.datasets import make_bags

pytestmark = pytest.mark.browser


@pytest.fixture
def folder(tmp_path):
    """A table with hostile ids, texts and column names, and a model of its first bags."""
    bags, y, _ = make_bags(40, (2, 4), random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"])
    frame["bag"] = [f"{HOSTILE}{number}" for number in bags.index]
    frame["label"] = np.where(bags.index < 8, y[bags.index], np.nan)
    frame["<script>alert(2)</script>"] = "<b>bold</b><script>alert(3)</script>"
    frame.to_csv(tmp_path / "bags.csv", index=False)
    columns = {"bag": "bag", "known": None, "label": ["label"], "arrays": []}
    named = pd.DataFrame(bags[:8].X, columns=["u", "v"])
    model = BagGP(n_inducing=10, learn=False, random_state=0).fit(bags[:8].with_features(named), y[:8].astype(float))
    model.save(tmp_path / "model", notes=columns)
    return tmp_path


@contextmanager
def served(folder):
    """A process that serves the page; its address."""
    command = [sys.executable, "-m", "bagwise", "label", "bags.csv", "--model", "model", "--no-browser", "--as", "ann"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        line = next(line for line in process.stdout if line.startswith("Open "))
        yield process, line.split()[1]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def answers(folder):
    lines = (folder / "bags.csv.bags.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] != "begin"]


def shown(page):
    return page.locator("#name").inner_text().removeprefix("bag ")


def press(page, key):
    """Press a key and wait until another item (or none) is shown."""
    before = page.locator("#name").inner_text()
    page.keyboard.press(key)
    page.wait_for_function("before => document.getElementById('name').textContent !== before", arg=before)


def opened(browser, url):
    page = browser.new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"something was executed: {dialog.message}"))
    page.goto(url)
    page.wait_for_selector("#item:not([hidden])")
    return page


def test_twenty_items_by_keyboard_undo_and_a_killed_server_lose_nothing(browser, folder):
    with served(folder) as (process, url):
        page = opened(browser, url)
        for number in range(20):
            press(page, "yn"[number % 2])
        assert [record["values"] for record in answers(folder)] == [[1], [0]] * 10
        last = answers(folder)[-1]["bag"]
        press(page, "u")
        assert shown(page) == last
        assert answers(folder)[-1]["kind"] == "undo"
        press(page, " ")
        assert answers(folder)[-1]["kind"] == "skip"
        process.kill()
        process.wait()
        page.keyboard.press("y")
        page.wait_for_selector("#trouble:not([hidden])")
        assert "Nothing was stored" in page.locator("#trouble").inner_text()
        page.close()
    with served(folder) as (_, url):
        page = opened(browser, url)
        assert "(19 here)" in page.locator("#progress").inner_text()
        press(page, "y")
        assert answers(folder)[-1]["values"] == [1]
        page.close()


def test_two_tabs_show_different_bags(browser, folder):
    with served(folder) as (_, url):
        one, two = opened(browser, url), opened(browser, url)
        assert shown(one) != shown(two)
        press(two, "n")
        press(one, "y")
        assert len({record["bag"] for record in answers(folder)}) == 2


def test_hostile_names_are_text_and_belief_is_hidden_until_asked_for(browser, folder):
    with served(folder) as (_, url):
        page = opened(browser, url)
        assert shown(page).startswith(HOSTILE)
        assert "<script>alert(3)</script>" in page.locator("#rows").inner_text()
        assert page.locator("script").count() == 1
        assert page.locator("#belief").is_hidden()
        page.keyboard.press("b")
        page.wait_for_selector("#belief:not([hidden])")
        assert "%" in page.locator("#belief").inner_text()
        press(page, "2")
        assert answers(folder)[-1]["values"] == [1]
        assert answers(folder)[-1]["shown"] is True
        assert page.locator("#belief").is_hidden()


def test_label_columns_are_ticked_by_number_and_saved_with_y(browser, folder):
    bags, y, _ = make_bags(24, 2, random_state=0)
    both = np.column_stack([y, np.arange(24) % 2]).astype(float)
    both[8:] = np.nan
    frame = pd.DataFrame(bags.X, columns=["u", "v"]).assign(bag=[f"b{number}" for number in bags.index])
    frame[["fox", "owl"]] = both[bags.index]
    frame.to_csv(folder / "bags.csv", index=False)
    named = bags.with_features(pd.DataFrame(bags.X, columns=["u", "v"]))
    model = BagGP(n_inducing=6, learn=False, random_state=0).fit(
        named, pd.DataFrame(both, list(bags.ids), ["fox", "owl"])
    )
    model.save(folder / "model", notes={"bag": "bag", "known": None, "label": ["fox", "owl"], "arrays": []})
    with served(folder) as (_, url):
        page = opened(browser, url)
        page.keyboard.press("1")
        page.keyboard.press("2")
        page.keyboard.press("1")
        press(page, "y")
        press(page, "n")
        assert [record["values"] for record in answers(folder)] == [[0, 1], [0, 0]]


def test_page_of_another_origin_can_neither_read_nor_write(browser, folder):
    with served(folder) as (_, url):
        page = browser.new_page()
        page.goto("data:text/html,<p>another page</p>")
        tried = """async (url) => {
            const answer = {method: "POST", body: '{"tab":"x","item":9,"values":[1]}'};
            const json = {...answer, headers: {"content-type": "application/json"}};
            const made = [fetch(url + "next"), fetch(url + "answer", answer), fetch(url + "answer", json)];
            const all = await Promise.allSettled(made);
            return all.map((one) => one.status);
        }"""
        assert page.evaluate(tried, url) == ["rejected"] * 3
        sent = """url => fetch(url, {method: "POST", mode: "no-cors", body: '{"tab":"x","item":9,"values":[1]}'})"""
        page.evaluate(f"{sent}.catch(() => 0)", url + "answer")
        assert answers(folder) == []


def test_page_fits_wide_and_narrow_screens_light_and_dark(browser, folder):
    with served(folder) as (_, url):
        for width, scheme in itertools.product((360, 1280), ("light", "dark")):
            page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            page.goto(url)
            page.wait_for_selector("#item:not([hidden])")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if "BAGWISE_PICTURES" in os.environ:
                page.screenshot(path=f"{os.environ['BAGWISE_PICTURES']}/label_{width}_{scheme}.png")
            page.close()
