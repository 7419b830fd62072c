"""A fit on a cluster gives the model of one process, to the last bit, whatever happens to workers and clients."""

import hashlib
import multiprocessing
import os
import signal

import dask
import distributed.utils
import numpy as np
import pandas as pd
import pytest
import torch
from distributed import Client, LocalCluster
from tests.cli.command import done, refused
from tests.scale import mortal
from tests.scale.mortal import LONG, SMALL, problem

import bagwise
from bagwise import BagDataError, Bags
from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.places import chunks_of
from bagwise.models import discover
from bagwise.models._base.state import pack
from bagwise.sources.rows import StoredRows

MODELS = {
    "mean field": ("mil-gp-probit", {**SMALL, "max_iter": 2}, 2),
    "messages": ("bag-gp", {**SMALL, "learn": False, "inference": "ep", "tol": 1.0}, 1),
    "sites": ("bag-gp", {**SMALL, "learn": False, "inference": "bag-ep", "tol": 1.0}, 2),
    "chains": ("mil-gp-probit", {**SMALL, "inference": "gibbs", "n_samples": 3, "n_burn_in": 1, "n_chains": 2}, 1),
    "witnesses": ("gpmil", {**SMALL, "learn": False, "n_stages": 1, "max_iter": 3, "tol": 0.0}, 2),
    "candidates": ("miplgp", {**SMALL, "solver": "sparse", "n_rounds": 2, "learn": False}, 1),
}
pytestmark = pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning", "ignore::bagwise.BagDataWarning")


@pytest.fixture(scope="module")
def cluster():
    """Two processes, forked from one that has imported everything: a killed one is back at once."""
    multiprocessing.set_forkserver_preload(["distributed", "torch", "bagwise"])
    distributed.utils._forkserver_preload_set = True
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(**settings, silence_logs=50) as made,
    ):
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        made.wait_for_workers(2)
        yield made


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", mortal.CHUNK_ROWS)


def digest(model):
    tensors = pack(model)[1]
    content = b"".join(name.encode() + tensors[name].numpy().tobytes() for name in sorted(tensors))
    return hashlib.sha256(content).hexdigest()


def serial(name, settings, bags, y):
    with bagwise.scale.within(threads=1):
        return digest(discover()[name](**settings).fit(bags, y))


@pytest.mark.parametrize("case", MODELS)
def test_cluster_equals_one_process_to_the_last_bit(client, case, tmp_path):
    name, settings, chunks_per_task = MODELS[case]
    bags, y = problem(tmp_path)
    with bagwise.scale.on(client, chunks_per_task=chunks_per_task):
        model = discover()[name](**settings).fit(bags, y)
    assert digest(model) == serial(name, settings, bags, y)
    assert model.threads_ == 1


def test_workers_killed_three_times_change_nothing_and_tasks_stay_few(client):
    bags, y = problem()
    settings = {**LONG, "max_iter": 24}
    tasks, victims = [], []

    def disturb(iteration, _):
        tasks.append(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
        if iteration in (3, 6, 13):
            victim = min(client.run(os.getpid).values())
            os.kill(victim, signal.SIGKILL)
            victims.append(victim)

    with bagwise.scale.on(client):
        model = bagwise.VGPMIL(**settings, callback=disturb).fit(bags, y)
    assert len(set(victims)) == 3
    assert digest(model) == serial("vgpmil", settings, bags, y)
    n_shards = len(list(model.features_.designs(bags)))
    assert n_shards > 2
    assert len(tasks) == 24
    assert max(tasks) <= n_shards * (2 + 10) + 10 + 5  # a chain of ten sweeps at most, and what they were asked


def test_what_chunks_remember_does_not_travel_with_their_sums(client, monkeypatch):
    bags, y = problem()
    submit, added = client.submit, []

    def note(function, *arguments, **how):
        if function.__name__ == "sums_added":
            added.extend(future.key for future in arguments[0])
        return submit(function, *arguments, **how)

    monkeypatch.setattr(client, "submit", note)
    with bagwise.scale.on(client):
        bagwise.VGPMIL(**SMALL, max_iter=1).fit(bags, y)
    assert {key.split("-")[0] for key in added} == {"sums_of"}


LEARNED = {"messages": "ep", "sites": "bag-ep"}


@pytest.fixture
def brief_learning(monkeypatch):
    """Few steps of learning a kernel, each of a few sweeps, all of them on the workers."""
    monkeypatch.setattr("bagwise.scale.cluster.FEW_ROWS", 0)
    monkeypatch.setattr("bagwise.scale.cluster._SMALLER", 1)
    settings = {"judges.CHUNK_ROWS": mortal.CHUNK_ROWS, "learn.iteration_limit": lambda free: 1}
    settings |= {"by_bags.TOLERANCE": 9.0, "by_bags._ADJOINT_STEPS": 2}
    for name, value in settings.items():
        monkeypatch.setattr(f"bagwise.inference.kernel_learning.{name}", value)
    monkeypatch.setattr("bagwise.inference.kernel_learning.by_messages.ByMessages.__init__.__defaults__", (1.0,))
    monkeypatch.setattr("bagwise.inference.bag_propagation._SWEEPS", 1)
    monkeypatch.setattr("bagwise.gp.kernel_parameters.LARGER_LENGTHSCALES", (1.0,))
    monkeypatch.setattr("bagwise.gp.kernel_parameters.LARGER_VARIANCES", (1.0,))


def learning(case):
    return {**SMALL, "inference": LEARNED[case], "size_effect": False, "tol": 1.0}


@pytest.mark.parametrize("case", LEARNED)
def test_kernel_learned_on_workers_is_that_of_one_process_to_the_last_bit(client, case, brief_learning):
    bags, y = problem()
    with bagwise.scale.on(client, chunks_per_task=2):
        model = bagwise.BagGP(**learning(case)).fit(bags, y)
    assert digest(model) == serial("bag-gp", learning(case), bags, y)


def test_rows_of_a_file_are_read_by_workers_alone_to_the_model_of_one_process(
    client, brief_learning, monkeypatch, tmp_path
):
    for name in ("gp.moments.WINDOW", "gp.moments._ROWS", "scale.cluster.WINDOW"):
        monkeypatch.setattr(f"bagwise.{name}", 64)
    bags, y = problem(tmp_path)
    reads = []
    read = StoredRows._read
    monkeypatch.setattr(StoredRows, "_read", lambda *them: reads.append(them) or read(*them))
    with bagwise.scale.on(client):
        model = bagwise.BagGP(**learning("messages")).fit(bags, y)
    assert reads == []
    with bagwise.scale.within(threads=1, memory=0):
        assert digest(bagwise.BagGP(**learning("messages")).fit(bags, y)) == digest(model)
    assert reads != []


@pytest.mark.statistical
@pytest.mark.parametrize("case", LEARNED)
def test_kernel_learned_on_workers_that_die_is_that_of_one_process_to_the_last_bit(
    client, case, brief_learning, monkeypatch
):
    bags, y = problem()
    steps, victims = [], []
    submit = bagwise.scale.cluster.ClusterChunks._submit

    def disturb(chunks, step, *rest):
        submit(chunks, step, *rest)
        steps.append(type(step).__name__)
        if steps.count("Slope") == 1 and not victims:  # in the middle of the first gradient
            victims.append(min(client.run(os.getpid).values()))
            os.kill(victims[0], signal.SIGKILL)

    monkeypatch.setattr(bagwise.scale.cluster.ClusterChunks, "_submit", disturb)
    with bagwise.scale.on(client, chunks_per_task=2):
        model = bagwise.BagGP(**learning(case)).fit(bags, y)
    assert victims
    assert steps.count("Slope") >= 2
    assert digest(model) == serial("bag-gp", learning(case), bags, y)


@pytest.mark.statistical
def test_tasks_and_memory_of_the_scheduler_stay_flat_over_a_hundred_sweeps(client):
    bags, y = problem()
    features = bagwise.MILGPProbit(**SMALL).fit(bags, y).features_
    evidence = ProbitCounts(CountEvidence(y[:, None].astype(float), bags.sizes))
    seen = []
    with bagwise.scale.on(client):
        engine = ExpectationPropagation(chunks_of(features, bags, evidence), features.n_columns, 1, features.device)
        for _ in range(50):
            engine.step()  # two sweeps: new messages, and what they add up to
            seen.append(client.run_on_scheduler(_tasks_and_memory))
    tasks, memory = np.array(seen).T
    assert tasks[-10:].max() <= tasks[5:15].max()  # what is written down every ten sweeps leaves no tasks behind
    assert memory[-10:].max() - memory[5:15].max() < 20e6


def _tasks_and_memory(dask_scheduler):
    return len(dask_scheduler.tasks), dask_scheduler.proc.memory_info().rss


def killed(target, *arguments):
    """Run a function in a process of its own, which it does not survive."""
    process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def test_features_in_a_file_are_gone_with_a_killed_process(cluster, tmp_path):
    killed(mortal.cache_that_dies, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_killed_client_is_continued_by_another_to_the_same_model(cluster, client, tmp_path, monkeypatch):
    folder = tmp_path / "checkpoint"
    killed(mortal.client_that_dies, cluster.scheduler_address, str(tmp_path), str(folder))
    assert len(list(folder.glob("*/sums-*"))) > 10
    assert len(list(folder.glob("*/state-000010-*"))) > 2
    bags, y = problem(tmp_path)
    made = []
    run = bagwise.scale.cluster.ClusterChunks._made_now
    monkeypatch.setattr(bagwise.scale.cluster.ClusterChunks, "_made_now", lambda *them: made.append(1) or run(*them))
    with bagwise.scale.on(client, checkpoint=folder):
        model = bagwise.VGPMIL(**LONG).fit(bags, y)
    assert digest(model) == serial("vgpmil", LONG, bags, y)
    assert len(made) <= 5
    assert not folder.exists()


def test_witnesses_that_were_interrupted_are_continued_to_the_same_model(client, tmp_path):
    """The end of an interrupted fit looks at all chunks again, which the one that goes on must not meet."""
    bags, y = problem()
    settings, folder = {**MODELS["witnesses"][1], "max_iter": 5, "tol": 0.0}, tmp_path / "checkpoint"

    def interrupt(iteration, _):
        if iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), bagwise.scale.on(client, checkpoint=folder):
        bagwise.GPMIL(**settings, callback=interrupt).fit(bags, y)
    assert len(list(folder.glob("*/sums-*"))) > 2
    with bagwise.scale.on(client, checkpoint=folder):
        model = bagwise.GPMIL(**settings).fit(bags, y)
    assert model.n_iter_ == 5
    assert digest(model) == serial("gpmil", settings, bags, y)


def test_checkpoint_of_other_labels_is_not_continued(client, tmp_path):
    bags, y = problem()
    settings = {**SMALL, "max_iter": 3}

    def fit(labels, fail):
        def stop(*_):
            if fail:
                raise RuntimeError("the client stops")

        with bagwise.scale.on(client, checkpoint=tmp_path / "c"):
            return bagwise.MILGPProbit(**settings, callback=stop).fit(bags, labels)

    with pytest.raises(RuntimeError):
        fit(y, True)
    assert digest(fit(1 - y, False)) == serial("mil-gp-probit", settings, bags, 1 - y)


def test_file_that_a_worker_cannot_see_is_a_clear_error(client, tmp_path, monkeypatch):
    bags, y = problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    here = Bags.open("X.npy", bags.index)
    with bagwise.scale.on(client), pytest.raises(BagDataError, match="cannot be seen from this machine"):
        bagwise.MILGPProbit(**SMALL).fit(here, y)


def test_workers_with_another_version_are_refused(client, monkeypatch):
    monkeypatch.setattr("bagwise.scale.cluster.own_version", lambda: "99.0")
    with pytest.raises(BagDataError, match=r"has bagwise .*, this process has 99\.0"), bagwise.scale.on(client):
        pass


def test_worker_of_another_version_that_joins_later_is_refused(client, monkeypatch):
    bags, y = problem()
    with bagwise.scale.on(client):
        monkeypatch.setattr("bagwise.scale.cluster.own_version", lambda: "99.0")
        with pytest.raises(BagDataError, match=r"a worker has bagwise .*, the client has 99\.0"):
            bagwise.MILGPProbit(**SMALL).fit(bags, y)


def test_number_of_chunks_per_task_must_be_a_power_of_two(client):
    with pytest.raises(BagDataError, match="power of two"), bagwise.scale.on(client, chunks_per_task=3):
        pass


def test_interrupted_fit_keeps_what_it_has(client):
    bags, y = problem()

    def interrupt(iteration, _):
        if iteration == 3:
            raise KeyboardInterrupt

    model = bagwise.MILGPProbit(**SMALL, callback=interrupt)
    with pytest.raises(KeyboardInterrupt, match="interrupted after"), bagwise.scale.on(client):
        model.fit(bags, y)
    assert torch.isfinite(model.posterior_.mean).all()


def test_cli_fits_on_a_cluster(cluster, tmp_path):
    bags, y = problem()
    frame = pd.DataFrame(bags.X, columns=list("abc")).assign(bag=bags.index, label=y[bags.index])
    frame.to_parquet(tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "--model", "mil-gp-probit", "--bag", "bag", "--label", "label")
    settings = ("--set", "random_state=0", "--set", "max_iter=2", "--set", "n_inducing=6", "--set", "verbose=0")
    done(*fit, *settings, "--cluster", cluster.scheduler_address, "--memory", "1KB", "-o", tmp_path / "m")
    opened, labels = Bags.open(tmp_path / "t.parquet", "bag", label="label")
    model = bagwise.load(tmp_path / "m")
    assert digest(model) == serial("mil-gp-probit", {**SMALL, "max_iter": 2, "verbose": 0}, opened, labels)


def test_cli_refuses_an_address_without_a_cluster(tmp_path):
    pd.DataFrame({"bag": [1, 2], "label": [0, 1], "a": [0.0, 1.0]}).to_csv(tmp_path / "t.csv")
    fit = ("fit", tmp_path / "t.csv", "--bag", "bag", "--label", "label", "-o", tmp_path / "m")
    assert "no scheduler answers at 'nonsense'" in refused(*fit, "--cluster", "nonsense")
