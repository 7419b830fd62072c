"""The catalogue of mutants stays in step with the sources, and the runner tells caught from survived."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants import __main__ as runner
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import SOURCES, Mutant, MutantError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("file", dict.fromkeys(mutant.file for mutant in MUTANTS))
def test_mutants_can_be_planted_and_their_tests_are_there(file):
    """The file still is a Python file then: a mutant is a bug, not a typing error."""
    for mutant in (mutant for mutant in MUTANTS if mutant.file == file):
        compile(mutant.planted(ROOT), mutant.file, "exec")
        assert mutant.old != mutant.new
        for test in mutant.test_paths:
            path, _, name = test.partition("::")
            assert (ROOT / path).is_file()
            assert f"def {name}" in (ROOT / path).read_text()


def test_every_package_has_mutants_and_no_two_have_one_name():
    folders = {path.parent for path in (ROOT / SOURCES).rglob("*.py") if path.name != "__init__.py"}
    assert {(ROOT / SOURCES / mutant.file).parent for mutant in MUTANTS} == folders
    assert len(MUTANTS) == len({mutant.name for mutant in MUTANTS}) >= 100


def test_text_that_does_not_occur_once_is_an_error_that_names_the_mutant(tmp_path):
    path = tmp_path / SOURCES / "one.py"
    path.parent.mkdir(parents=True)
    path.write_text("a = 1\nb = 1\n")
    for old, times in (("1", 2), ("3", 0)):
        with pytest.raises(MutantError, match=rf"one\.py: a bug: '{old}' occurs {times} times in one\.py"):
            Mutant("one.py", "a bug", old, "2", "test_one.py").planted(tmp_path)


@pytest.fixture
def tree(tmp_path):
    """A package of one function, and tests that look at one of its two branches."""
    for name, text in {
        "src/bagwise/__init__.py": "",
        "src/bagwise/one.py": "def sign(x):\n    return 1 if x > 0 else -1\n",
        "tests/test_one.py": "from bagwise.one import sign\n\n\ndef test_sign():\n    assert sign(2) == 1\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_mutant_is_caught_where_a_test_fails_and_survives_where_none_does(tree):
    code = (
        "import sys; from pathlib import Path; from tests.mutants.__main__ import outcome_of\n"
        "from tests.mutants.mutant import Mutant\n"
        "for old, new in (('return 1', 'return 2'), ('else -1', 'else 0')):\n"
        "    print(outcome_of(Mutant('one.py', 'a bug', old, new, 'test_one.py'), Path(sys.argv[1])))\n"
    )
    command = [sys.executable, "-c", code, str(tree)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == [runner.CAUGHT, runner.SURVIVED]
    assert "return 1 if x > 0 else -1" in (tree / "src/bagwise/one.py").read_text()


def test_tests_that_cannot_be_run_are_an_error_and_the_mutant_is_taken_out_again(tree, monkeypatch):
    monkeypatch.setattr(runner, "run_tests", lambda *arguments: (4, "no such file"))
    with pytest.raises(MutantError, match="a bug: its tests cannot be run"):
        runner.outcome_of(Mutant("one.py", "a bug", "return 1", "return 2", "test_none.py"), tree)
    assert "return 1 if" in (tree / "src/bagwise/one.py").read_text()


def test_fewer_than_95_percent_are_a_failure(capsys):
    mutants = MUTANTS[:20]
    assert runner.summary(mutants, [runner.CAUGHT] * 19 + [runner.SURVIVED]) == 0
    assert runner.summary(mutants, [runner.CAUGHT] * 18 + [runner.SURVIVED, runner.TOO_SLOW]) == 1
    assert f"{runner.TOO_SLOW}: {mutants[19].name}\n18 of 20 mutants caught (90.0%)" in capsys.readouterr().out
