"""A small labelling session, and a client that talks to it as the page does."""

import asyncio
import functools
import json
from pathlib import Path

import httpx
import numpy as np
import pandas as pd

from bagwise import BagGP, Bags
from bagwise.datasets import make_bags
from bagwise.io.tables import csv_bytes
from bagwise.labelling.exhibit import make_exhibit
from bagwise.labelling.export import labelled_table
from bagwise.labelling.gate import allowed_hosts
from bagwise.labelling.journal import Journal
from bagwise.labelling.pool import make_pool
from bagwise.labelling.question import question_for
from bagwise.labelling.server import Desk, make_app
from bagwise.labelling.session import Session

TOKEN = "the-token"
HOSTS = allowed_hosts("127.0.0.1", 8000)
HOSTILE = '<img src=x onerror="alert(1)">'


@functools.lru_cache
def problem(n_bags=40, n_known=8):
    """Bags of which some are labelled, their truth, and the table they come from, in another order."""
    bags, y, _ = make_bags(n_bags, (2, 4), random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"])
    frame["bag"] = [HOSTILE if number == n_known else f"bag {number}" for number in bags.index]
    frame["note"] = [f"note of row {row}" for row in range(len(frame))]
    frame = frame.sample(frac=1, random_state=1, ignore_index=True)
    made = Bags.from_frame(frame, "bag", features=["u", "v"])
    order = [n_known if name == HOSTILE else int(name.removeprefix("bag ")) for name in made.ids]
    truth = y[order]
    known = np.where(np.isin(order, np.arange(n_known)), truth, np.nan)
    return made, known, truth, frame


@functools.lru_cache
def fitted():
    """The model of the problem as it is by default."""
    bags, y, _, _ = problem()
    there = ~np.isnan(y)
    return BagGP(n_inducing=10, learn=False, random_state=0).fit(bags[there], y[there])


def open_session(folder: Path, *, by="ann", what="bags", in_background=False):
    (bags, known, _, _), model = problem(), fitted()
    question = question_for(model, what, ["label"])
    pool = make_pool(model, bags, known, what, question)
    journal = Journal(folder / "answers.jsonl", what, question)
    return Session(model, pool, journal, by=by, in_background=in_background)


def open_client(folder: Path, **options):
    session, frame = open_session(folder, **options), problem()[3]
    exhibit = make_exhibit(session.pool, frame, bag="bag")

    def table() -> bytes:
        return csv_bytes(labelled_table(session.pool, session.known(), frame, "bag", ["label"], None), raw=True)

    app = make_app(Desk(session, exhibit, "Which bags?", table), TOKEN, HOSTS)
    return session, Page(Client(app))


class Client:
    """Requests to the application itself, one after the other."""

    def __init__(self, app, address="http://127.0.0.1:8000"):
        self._app, self._address = app, address

    def request(self, method, path, headers=None, **options):
        async def ask():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=self._address, trust_env=False) as client:
                return await client.request(
                    method, path, headers={"origin": self._address} | (headers or {}), **options
                )

        return asyncio.run(ask())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


class Page:
    """What the script of the page does, without a browser."""

    def __init__(self, client, tab="one"):
        self.client, self.tab = client, tab

    def get(self, path, **options):
        return self.client.get(f"/{TOKEN}/{path}", **options)

    def post(self, path, **told):
        return self.client.post(f"/{TOKEN}/{path}", json={"tab": self.tab} | told)

    def next(self):
        return self.get(f"next?tab={self.tab}").json()

    def answer(self, item, *values, **told):
        response = self.post("answer", item=item["number"], values=list(values), **told)
        assert response.status_code == 200, response.text
        return response.json()

    def another_tab(self, tab="two"):
        return Page(self.client, tab)


def lines(folder):
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
