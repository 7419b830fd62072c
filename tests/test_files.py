"""Files: whole or not at all, nothing replaced that is no file, nothing left behind, nobody disturbed."""

import os
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bagwise._files import alone_in, check_writable, is_same_file, is_standard_output, is_stream, write_whole
from bagwise.exceptions import BagDataError


def put(data):
    return lambda stream: stream.write(data)


def run(code, *arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, timeout=60, **options)


# ---------------------------------------------------------------- what is written


def test_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_whole(link, put(b"new"))
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "real", "there"]


def test_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "later")
    write_whole(tmp_path / "link", put(b"new"))
    assert (tmp_path / "later").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o640, 0o666], ids=oct)
def test_overwritten_file_keeps_its_mode(tmp_path, mode):
    """Also where new files of this user would get less."""
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_whole(path, put(b"new"))
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)


def test_device_is_written_to_and_never_replaced():
    ours, theirs = os.openpty()  # a terminal: nothing in its folder could be replaced by mistake
    write_whole(os.ttyname(theirs), put(b"anything\n"))
    assert os.read(ours, 100) == b"anything\r\n"
    assert is_stream(os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)


def test_pipe_carries_what_is_written(tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write_whole(path, put(b"through the pipe"))
    reader.join(timeout=10)
    assert read == [b"through the pipe"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_nothing_reaches_a_pipe_when_writing_fails(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def fail(stream):
        stream.write(b"half")
        raise ValueError("stopped")

    try:
        with pytest.raises(ValueError, match="stopped"):
            write_whole(path, fail)
        with pytest.raises(BlockingIOError):
            os.read(held, 10)
    finally:
        os.close(held)


def test_socket_and_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OSError, match="is a socket, not a file"):
            write_whole("socket", put(b""))
        assert stat.S_ISSOCK(os.stat("socket").st_mode)
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        write_whole(tmp_path, put(b""))


# not as /dev/stdout, which a mistake could replace for the whole machine
WRITE_TO_STANDARD_OUTPUT = """
from bagwise._files import is_standard_output, write_whole
print("before", is_standard_output("/dev/fd/1"))
write_whole("/dev/fd/1", lambda stream: stream.write(b"the file\\n"))
print("after")
"""


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_output_takes_its_turn_whatever_it_is(tmp_path, kind):
    if kind == "pipe":
        text = run(WRITE_TO_STANDARD_OUTPUT, stdout=subprocess.PIPE).stdout
    else:
        with (tmp_path / "out").open("wb") as stream:
            run(WRITE_TO_STANDARD_OUTPUT, stdout=stream)
        text = (tmp_path / "out").read_bytes()
    assert text == b"before True\nthe file\nafter\n"
    assert not is_standard_output(tmp_path / "out")


# ---------------------------------------------------------------- before the work


def test_place_that_cannot_be_written_is_found_before_the_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        check_writable(tmp_path / "no" / "file")
    with pytest.raises(OSError, match=r"/proc/file: cannot be written \("):
        check_writable("/proc/file")
    with pytest.raises(OSError, match="name too long"):
        check_writable(tmp_path / ("x" * 300))
    check_writable(tmp_path / ("x" * 250))
    write_whole(tmp_path / ("x" * 250), put(b"a long name"))
    assert [len(path.name) for path in tmp_path.iterdir()] == [250]


def test_one_file_is_known_by_all_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "symbolic").symlink_to("one")
    os.link("one", "hard")
    for name in ("one", "./one", tmp_path / "one", "symbolic", "hard", "../" + tmp_path.name + "/one"):
        assert is_same_file("one", name)
        assert not is_same_file("other", name)
    assert is_same_file("not there", tmp_path / "." / "not there")
    assert not is_same_file("not there", "nor there")


# ---------------------------------------------------------------- what was left behind

KILLED = """
import os, signal, sys
from bagwise._files import write_whole
def die(stream):
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write_whole(sys.argv[1], die)
"""


def test_files_of_a_killed_writer_are_removed_by_the_next(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(subprocess.CalledProcessError):
        run(KILLED, path)
    (left,) = tmp_path.iterdir()
    assert left.read_bytes() == b"half"
    (tmp_path / ".model.notes").write_bytes(b"mine")
    write_whole(tmp_path / "other", put(b"of another file"))
    assert left.exists()
    write_whole(path, put(b"whole"))
    assert sorted(file.name for file in tmp_path.iterdir()) == [".model.notes", "model", "other"]


def test_file_of_a_writer_at_work_is_left_alone(tmp_path):
    path = tmp_path / "model"

    def meanwhile(stream):
        stream.write(b"the slow one")
        stream.flush()
        write_whole(path, put(b"the quick one"))
        assert path.read_bytes() == b"the quick one"

    write_whole(path, meanwhile)
    assert path.read_bytes() == b"the slow one"
    assert list(tmp_path.iterdir()) == [path]


def test_many_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    texts = [letter * 10_000 for letter in (b"a", b"b", b"c", b"d")]
    with ThreadPoolExecutor(len(texts)) as writers:
        list(writers.map(lambda text: write_whole(tmp_path / "model", put(text)), texts * 200))
    assert (tmp_path / "model").read_bytes() in texts
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


# ---------------------------------------------------------------- alone in a folder

HOLD = """
import pathlib, sys, time
from bagwise._files import alone_in
with alone_in(pathlib.Path(sys.argv[1]), "run"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_lock_of_a_living_process_refuses_and_that_of_a_dead_one_does_not(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        message = rf"another run \(process {other.pid}\) writes its results there; wait until it has ended"
        with pytest.raises(BagDataError, match=message), alone_in(tmp_path, "run"):
            pass
        other.kill()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with alone_in(tmp_path, "run"):
            break
    else:
        pytest.fail("the lock of a dead process blocks")
