"""The cells of a table: which there are, and their seeds."""

from tests.bench.tiny_table import tiny_table

from bagwise.bench.cells import Choice, cells_of


def test_quick_cells_are_cells_of_the_full_table():
    table = tiny_table()
    quick = {cell.key: cell.fingerprint for cell in cells_of(table, Choice(quick=True))}
    full = {cell.key: cell.fingerprint for cell in cells_of(table)}
    assert len(quick) == 6
    assert quick.items() <= full.items()


def test_only_restricts_models_and_sets():
    table = tiny_table()
    chosen = cells_of(table, Choice(only=("SVM", "rough")))
    assert {(cell.model.name, cell.data.name) for cell in chosen} == {("SVM", "rough")}
    assert {cell.model.name for cell in cells_of(table, Choice(only=("rough",)))} == {"probit", "small", "SVM"}
    assert {cell.repeat for cell in cells_of(table, Choice(rounds=4))} == {0, 1, 2, 3}


def test_repeats_taken_one_by_one_are_the_cells_of_the_table():
    table = tiny_table()
    one_by_one = [cells_of(table, Choice(rounds=3, repeat=number)) for number in (1, 2, 3)]
    assert [{cell.repeat for cell in cells} for cells in one_by_one] == [{0}, {1}, {2}]
    assert [cell.key for cells in one_by_one for cell in cells] == [c.key for c in cells_of(table, Choice(rounds=3))]
    assert cells_of(table, Choice(rounds=3, repeat=4)) == []


def test_seeds_are_the_same_for_all_models_of_a_split_and_differ_between_splits():
    cells = cells_of(tiny_table(), Choice(rounds=2))
    seeds = {cell.split_key: {other.seed for other in cells if other.split_key == cell.split_key} for cell in cells}
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds) == 12
