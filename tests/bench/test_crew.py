"""Workers that die."""

from pathlib import Path

from tests.bench.tiny_table import die_in_the_middle, tiny_table

from bagwise.bench.cells import Choice, cells_of
from bagwise.bench.crew import OneCrew, ProcessCrew
from bagwise.bench.run import SplitQueue, work_through


def test_a_worker_that_dies_costs_only_its_cell():
    def die(cell, folder):
        return None if cell.fold == 1 else {"key": cell.key, "error": None}

    cells = cells_of(tiny_table(), Choice(only=("calm", "probit")))
    found = [record for _, record, _ in work_through(SplitQueue(cells), OneCrew(die, Path()))]
    assert [record["error"] is None for record in found] == [True, False, True]
    assert "died" in found[1]["error"]


def test_a_process_that_dies_is_replaced():
    cells = cells_of(tiny_table(), Choice(only=("calm", "probit")))
    crew = ProcessCrew(die_in_the_middle, Path(), 1)
    try:
        found = [record for _, record, _ in work_through(SplitQueue(cells), crew)]
    finally:
        crew.close()
    assert [record["error"] is None for record in found] == [True, False, True]
