"""Processes that kill themselves, to see what they leave behind."""

import os
import signal
from pathlib import Path

import numpy as np
import torch
from distributed import Client

import bagwise
from bagwise import Bags
from bagwise.inference.places import TensorFile

CHUNK_ROWS = 45
SMALL = {"n_inducing": 6, "random_state": 0}
LONG = {**SMALL, "max_iter": 15, "tol": 0.0, "updates": "sequential"}  # which goes by what it remembers


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def problem(folder=None):
    random = np.random.default_rng(5)
    sizes = random.integers(1, 7, 40)
    X = random.standard_normal((sizes.sum(), 3))
    y = np.bincount(np.repeat(np.arange(40), sizes), X[:, 0] > 1.0).astype(bool).astype(int)
    bags = Bags(X, np.repeat(np.arange(40), sizes))
    if folder is None:
        return bags, y
    np.save(folder / "X.npy", X)
    return Bags.open(folder / "X.npy", bags.index), y


def client_that_dies(address, folder, checkpoint):
    """A fit that ends in its twelfth iteration."""
    bagwise.gp.features.CHUNK_ROWS = CHUNK_ROWS
    bags, y = problem(Path(folder))
    with Client(address) as client, bagwise.scale.on(client, checkpoint=checkpoint):
        bagwise.VGPMIL(**LONG, callback=lambda iteration, _: die() if iteration == 12 else None).fit(bags, y)


def cache_that_dies(folder):
    """Features in a file, of a process that ends."""
    file = TensorFile(folder)
    file.put(torch.zeros(1000))
    die()
