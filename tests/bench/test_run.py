"""Running a table: nothing finished is ever lost, and who does the work changes nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bench.tiny_table import stumble, tiny_table

from bagwise.bench.cells import Choice, cells_of
from bagwise.bench.run import Plan, SplitQueue, run
from bagwise.exceptions import BagDataError

SCRIPT = Path(__file__).parent / "tiny_table.py"


def records(folder):
    return [json.loads(line) for line in (folder / "tiny.jsonl").read_text().splitlines()]


def measured(folder):
    """What must not depend on who did the work, or when."""
    done = [record for record in records(folder) if record["error"] is None]
    return {record["key"]: (record["metrics"], record["seed"], record["fingerprint"]) for record in done}


def started(folder, jobs):
    """A run in a process group of its own, so that Ctrl-C reaches all of it."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(folder), str(jobs)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_cells(folder, count, process):
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if (folder / "tiny.jsonl").exists() and (folder / "tiny.jsonl").read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"the run ended before it was interrupted: {process.stderr.read()}")


@pytest.fixture(scope="module")
def in_one_go(tmp_path_factory):
    """What the table measures if nobody stops it, in one process."""
    folder = tmp_path_factory.mktemp("one")
    run(Plan((tiny_table(),), None, folder))
    return measured(folder)


@pytest.mark.parametrize(
    ("jobs", "stop"), [(1, signal.SIGKILL), pytest.param(2, signal.SIGINT, marks=pytest.mark.statistical)]
)
def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path, in_one_go, jobs, stop):
    process = started(tmp_path, jobs)
    wait_for_cells(tmp_path, 3, process)
    if stop == signal.SIGINT:
        os.killpg(process.pid, stop)
    else:
        process.send_signal(stop)
    process.communicate(timeout=300)
    before = records(tmp_path)
    assert 3 <= len(before) < 18
    run(Plan((tiny_table(),), None, tmp_path))
    assert records(tmp_path)[: len(before)] == before  # times included: nothing was measured again
    assert len(in_one_go) == 18
    assert measured(tmp_path) == in_one_go


def test_a_cluster_finds_what_one_finds(tmp_path, in_one_go):
    code = (
        "import sys; from pathlib import Path; from distributed import LocalCluster\n"
        "from tests.bench.tiny_table import tiny_table; from bagwise.bench.run import Plan, run\n"
        "with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=':0') as cluster:\n"
        "    run(Plan((tiny_table(),), None, Path(sys.argv[1]), cluster=cluster.scheduler_address))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "dask")]
    subprocess.run(command, check=True, timeout=300, cwd=SCRIPT.parents[2], capture_output=True)
    assert measured(tmp_path / "dask") == in_one_go


def test_a_record_tells_everything(tmp_path):
    run(Plan((tiny_table(),), None, tmp_path, Choice(quick=True, only=("probit",))))
    first = records(tmp_path)[0]
    assert first["error"] is None
    assert first["warnings"] == []
    assert first["seconds"]["fit"] > 0
    assert first["sizes"] == {"train": 12, "test": 6}
    assert {"python", "bagwise", "torch", "numpy", "scikit-learn"} <= set(first["versions"])
    assert {"instance auc", "instance log_likelihood", "bag accuracy"} <= set(first["metrics"]["calm"])
    assert len(first["scores"]["calm"]["instance score"]) == 24


def test_a_failure_is_told_and_tried_again(tmp_path, capsys):
    written = run(Plan((tiny_table(stumble),), None, tmp_path))
    failed = [record for record in records(tmp_path) if record["error"]]
    assert len(failed) == 6
    assert "ValueError: no answer today" in failed[0]["error"]
    assert "tiny/calm/small/0/0 failed" in capsys.readouterr().err
    assert "Failed: tiny/calm/small/0/0" in next(path for path in written if path.suffix == ".md").read_text()
    run(Plan((tiny_table(),), None, tmp_path))
    assert len(records(tmp_path)) == 24
    assert len(measured(tmp_path)) == 18


def test_nothing_is_measured_twice_unless_it_changed(tmp_path):
    run(Plan((tiny_table(),), None, tmp_path))
    run(Plan((tiny_table(),), None, tmp_path))
    assert len(records(tmp_path)) == 18
    models = tiny_table().models
    changed = (*models[:1], type(models[1])("small", "MILGPProbit", {"n_inducing": 6, "max_iter": 5}), *models[2:])
    run(Plan((tiny_table(models=changed),), None, tmp_path))
    assert len(records(tmp_path)) == 24
    run(Plan((tiny_table(),), None, tmp_path, fresh=True))
    assert len(records(tmp_path)) == 18


def test_second_run_in_a_folder_is_refused_while_the_first_is_at_work(tmp_path):
    process = started(tmp_path, 1)
    try:
        wait_for_cells(tmp_path, 1, process)
        message = rf"another bagwise bench \(process {process.pid}\) writes its results there; wait until it has ended"
        with pytest.raises(BagDataError, match=message):
            run(Plan((tiny_table(),), None, tmp_path, fresh=True))
        assert len(records(tmp_path)) >= 1  # a fresh beginning did not remove what the other one writes
    finally:
        process.kill()
        process.communicate(timeout=60)
    run(Plan((tiny_table(),), None, tmp_path))
    assert len(measured(tmp_path)) == 18


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(BagDataError, match="--only calmer: there is no such model or data set; there are probit"):
        run(Plan((tiny_table(),), None, tmp_path, Choice(only=("calmer",))))


def test_a_lane_stays_with_its_split_and_helps_at_the_end():
    queue = SplitQueue(cells_of(tiny_table(), Choice(only=("calm",))))
    mine, theirs = queue.take(0), queue.take(1)
    assert mine.split_key != theirs.split_key
    assert queue.take(0).split_key == mine.split_key
    taken = [queue.take(0) for _ in range(6)]
    assert None not in taken
    assert queue.take(0) is None
    assert queue.take(1) is None
