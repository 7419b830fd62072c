"""How many answers does the labelling page need? A simulated person answers through HTTP: is there a 9 in the bag?

The bags, the first labels and the bags that the model is judged on are those of ``benchmarks.active_learning``. The
page asks in its own order (most informative first) or at random; the person answers rightly and, after every fifth
answer, waits until the model has been fitted again. One seed says little: which order is ahead changes from seed to
seed. Seeds are printed one by one, so that several runs can share them. One thread for the models, one for the server;
half a minute of processor time for every seed.

Run: python -m benchmarks.labelling [seeds] [first seed]
"""

import sys
import tempfile
import threading
import time

import httpx
import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from bagwise import BagGP
from bagwise.labelling import open_session
from bagwise.labelling.exhibit import make_exhibit
from bagwise.labelling.gate import allowed_hosts, new_token
from bagwise.labelling.server import Desk, make_app, serve
from benchmarks.active_learning import FIRST, HELD_OUT, NAMES, POOL, TARGET, deal, first_reached

LAST, STEP = 60, 5
STRATEGIES = ("bald", "random")


class Person:
    """Answers what the page asks, as its script would."""

    def __init__(self, session, exhibit):
        ready = threading.Event()

        def listening(port):
            self.url = f"http://127.0.0.1:{port}"
            ready.set()

        token = new_token()
        desk = Desk(session, exhibit, "Which bags hold a 9?", bytes)
        make = lambda port: make_app(desk, token, allowed_hosts("127.0.0.1", port))  # noqa: E731
        threading.Thread(target=serve, args=(make, "127.0.0.1", 0, listening), daemon=True).start()
        ready.wait()
        self.client = httpx.Client(base_url=f"{self.url}/{token}/", headers={"origin": self.url}, timeout=60)

    def answer_one(self, truth):
        item = self.client.get("next", params={"tab": "one"}).raise_for_status().json()["item"]
        told = {"tab": "one", "item": item["number"], "values": [int(truth[item["number"]])]}
        self.client.post("answer", json=told).raise_for_status()

    def wait(self):
        while self.client.get("progress").raise_for_status().json()["fitting"]:
            time.sleep(0.2)


def curve(strategy, seed):
    """AUC on the held-out bags for every number of labels."""
    bags, y, others, truth, start = deal(seed)
    known = np.full(len(y), np.nan)
    known[start] = y[start]
    model = BagGP(random_state=seed).fit(bags, known)
    with tempfile.TemporaryDirectory() as folder:
        random = np.random.RandomState(seed)
        session = open_session(model, bags, known, f"{folder}/answers.jsonl", strategy=strategy, random_state=random)
        person = Person(session, make_exhibit(session.pool, None))
        found = [roc_auc_score(truth, model.predict_proba(others)[:, 1])]
        for _ in range(FIRST, LAST, STEP):
            for _ in range(STEP):
                person.answer_one(y)
            person.wait()
            found.append(roc_auc_score(truth, session.model.predict_proba(others)[:, 1]))
        session.close()
    return found


def main(seeds=10, first=0):
    torch.set_num_threads(1)
    started = time.perf_counter()
    labels = np.arange(FIRST, LAST + 1, STEP)
    print(f"bags of digits, {POOL} to choose from, {HELD_OUT} held out; labels to AUC {TARGET}\n", flush=True)
    curves = {strategy: [] for strategy in STRATEGIES}
    for seed in range(first, first + seeds):
        for strategy in STRATEGIES:
            curves[strategy].append(curve(strategy, seed))
            found = " ".join(f"{auc:.3f}" for auc in curves[strategy][-1])
            print(
                f"seed {seed}, {NAMES[strategy]}: {first_reached(labels, curves[strategy][-1]):.0f} labels; {found}",
                flush=True,
            )
    print(
        "\n| the page asks | mean curve reaches it at | median of seeds | seeds that never do | AUC at 20 | 40 | 60 |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for strategy, found in curves.items():
        each = np.array([first_reached(labels, auc) for auc in found])
        mean = np.mean(found, axis=0)
        at = " | ".join(f"{mean[list(labels).index(n)]:.3f}" for n in (20, 40, 60))
        print(
            f"| {NAMES[strategy]} | {first_reached(labels, mean):.0f} | {np.median(each):.0f} "
            f"| {np.isinf(each).sum()} of {seeds} | {at} |"
        )
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
