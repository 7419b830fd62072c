"""``bagwise bench`` and the plain command."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.tiny_table import tiny_table
from typer.testing import CliRunner

import bagwise.cli.bench
from bagwise.bench import __main__ as plain
from bagwise.cli.app import app

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tiny(monkeypatch):
    for module in (bagwise.cli.bench, plain):
        monkeypatch.setattr(module, "tables_named", lambda name: (tiny_table(),))


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_it_writes_results_markdown_and_a_page(tiny, tmp_path):
    result = run("tiny", "-o", tmp_path, "--quick", "--jobs", 1)
    assert result.exit_code == 0, (result.output, result.exception)
    assert [path.rsplit("/", 1)[1] for path in result.stdout.split()] == ["tiny.jsonl", "tiny.md", "tiny.html"]
    assert all((tmp_path / name).stat().st_size for name in ("tiny.jsonl", "tiny.md", "tiny.html"))
    assert "6 of 6 cells" in result.stderr


def test_the_plain_command_does_the_same(tiny, tmp_path, capsys):
    assert plain.run_from_arguments(["tiny", "-o", str(tmp_path), "--quick", "--only", "SVM, calm", "--jobs", "1"]) == 0
    assert len((tmp_path / "tiny.jsonl").read_text().splitlines()) == 2
    assert "tiny.html" in capsys.readouterr().out
    assert plain.run_from_arguments(["tiny", "-o", str(tmp_path), "--only", "storm"]) == 2
    assert capsys.readouterr().err.startswith("bagwise: --only storm: there is no such model or data set")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("musk",), "musk: there is no such table"),
        (("text",), "this table needs data sets"),
        (("text", "--data", "nowhere"), "--data nowhere: holds no trec9_tst1.npz"),
        (("recovery", "--only", "BagGP,fox"), "--only fox: there is no such model or data set"),
        (("recovery", "--device", "abacus"), "device='abacus': expected 'cpu' or 'cuda'"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, message, tmp_path):
    result = run(*arguments, "-o", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_ctrl_c_says_how_to_go_on(monkeypatch, tmp_path):
    def interrupted(plan):
        raise KeyboardInterrupt

    monkeypatch.setattr("bagwise.bench.run.run", interrupted)
    result = run("recovery", "-o", tmp_path)
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr


def test_measuring_needs_neither_typer_nor_jinja(tmp_path):
    code = (
        "import sys\n"
        "for name in ('typer', 'jinja2', 'distributed', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "from bagwise.bench import __main__ as plain\n"
        "from tests.bench.tiny_table import tiny_table\n"
        "assert len(plain.tables_named('all')) == len(plain.NAMES)\n"
        "plain.tables_named = lambda name: (tiny_table(),)\n"
        "sys.exit(plain.run_from_arguments(['tiny', '--quick', '-j', '1', '-o', sys.argv[1]]))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "no HTML page" in done.stderr
    assert (tmp_path / "tiny.md").is_file()


@pytest.mark.statistical
def test_plain_command_measures_the_table_of_recovery(tmp_path):
    chosen = ("--quick", "--rounds", "1", "--only", "BagGP,one-function", "-j", "1")
    assert plain.run_from_arguments(["recovery", *chosen, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "recovery.md").is_file()
