"""Every description is complete, and what it says was published is what the papers print."""

import inspect
import re
from pathlib import Path

import pytest

from bagwise.bench.cells import Choice, cells_of
from bagwise.bench.measure import build, estimator_class
from bagwise.bench.protocols import check_data
from bagwise.bench.summary import MEAN_ROW
from bagwise.bench.tables import NAMES, TABLES, tables_named
from bagwise.exceptions import BagDataError

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"


EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=NAMES)


def test_there_are_the_tables_that_were_promised():
    assert set(NAMES) == {"newsgroups", "miml", "benchmarks", "text", "recovery", "drug", "candidates", "groups"}
    assert tables_named("all") == tuple(TABLES.values())
    with pytest.raises(BagDataError, match="musk: there is no such table; there are benchmarks, "):
        tables_named("musk")


@EVERY_TABLE
def test_a_description_is_complete(table):
    rows = [row for data in table.sets for row in data.row_names]
    models = table.model_names
    assert len(set(rows)) == len(rows)
    assert len({cell.key for cell in cells_of(table)}) == len(cells_of(table))
    assert all("," not in name and " " not in name for name in (*models, *(data.name for data in table.sets)))
    assert all(figure.row in (*rows, MEAN_ROW) and figure.metric in table.metrics for figure in table.published)
    assert {name for pair in table.comparisons for name in pair} <= set(models)
    assert set(table.quick.sets) <= {data.name for data in table.sets}
    assert all(set(model.sets) <= {data.name for data in table.sets} for model in table.models)
    assert all(len(text) > 20 for text in (table.source, table.protocol))
    assert table.published, "nothing to compare with"
    assert any(name.startswith("BagGP") for name in models)
    assert 0 < len(cells_of(table, Choice(quick=True))) < len(cells_of(table))


@EVERY_TABLE
def test_models_exist_and_take_their_settings(table):
    for model in table.models:
        parameters = inspect.signature(estimator_class(model.estimator)).parameters
        assert set(model.settings) <= set(parameters), model.name
        assert build(model, seed=3).get_params()["random_state"] == 3


@EVERY_TABLE
def test_the_data_are_there(table, shared_data):
    check_data(shared_data, table.sets)


@EVERY_TABLE
def test_every_kind_of_evidence_is_offered(table, shared_data):
    data = table.sets[0]
    cell = next(cell for cell in cells_of(table) if cell.data == data)
    split = table.rule.split(cell.place(shared_data))
    assert {model.evidence for model in table.models} <= set(split.evidence)
    assert {row for part in split.parts for row in part.rows} == set(data.row_names)


def test_missing_data_are_named(tmp_path):
    with pytest.raises(BagDataError, match=r"holds no trec9_tst1\.npz, trec9_tst2\.npz"):
        check_data(tmp_path, TABLES["text"].sets)
    with pytest.raises(BagDataError, match="--data DIR"):
        check_data(None, TABLES["text"].sets)
    check_data(None, TABLES["recovery"].sets)


@pytest.mark.parametrize("name", TABLES)
def test_published_figures_are_shares(name):
    """Accuracies and areas lie between 0 and 1; papers print percentages as often as not."""
    shares = [figure for figure in TABLES[name].published if figure.metric.split()[-1] in ("accuracy", "auc")]
    assert all(0.0 < figure.value <= 1.0 for figure in shares)


@pytest.fixture
def paper():
    if not SEEDS.is_dir():
        pytest.skip("needs the papers beside the checkout (../shared/seeds)")
    return lambda number: next(SEEDS.glob(f"{number:03d}_*.txt")).read_text(encoding="utf-8")


def line_of(text, name, after=""):
    """The numbers (and ± numbers) in the row of a table that begins with this name, below a certain text."""
    begin = text.index(after) if after else 0
    line = next(line for line in text[begin:].splitlines() if re.match(rf"{re.escape(name)}\s", line))
    plain = re.sub(r"\$|\{|\}|\\bullet|</?b>", "", line.removeprefix(name)).replace("\\pm", "±")
    return [float(number.replace("–", "-")) for number in re.findall(r"-?\d+\.?\d*", plain)]


def typed_row(table, place, row, with_spread=False):
    found = [figure for figure in TABLES[table].published if (figure.place, figure.row) == (place, row)]
    pairs = ((figure.value, figure.spread) if with_spread else (figure.value,) for figure in found)
    return [value for pair in pairs for value in pair]


def test_newsgroups_figures_of_wang_and_pinar(paper):
    text, place = paper(0), "Wang & Pinar, table 2"
    printed = re.search(r"^atheism\t.*?^religion\t.*?$", text, re.M | re.S).group(0).splitlines()
    sets = [data.name for data in TABLES["newsgroups"].sets]
    assert len(printed) == len(sets) == 20
    for line, name in zip(printed, sets, strict=True):
        short = line.split("\t")[0]
        assert re.sub(r"\W", "_", short).replace("midwest", "mideast") in name
        assert line_of(text, short, after="Criteria\tAUC") == typed_row("newsgroups", place, name), name
    methods = ("PROBIT-GIBBS", "PROBIT", "LOGISTIC", "LOGISTIC-LM")
    means = [mean for name in methods for mean in line_of(text, f"MIL-GP-{name}", after="\tAUC\tLoglik")]
    assert means == typed_row("newsgroups", "Wang & Pinar, table 3", MEAN_ROW)


def test_newsgroups_figures_of_haussmann(paper):
    text, place = paper(2), "Haußmann, Hamprecht & Kandemir, supplement, table 5"
    names = {data.name: data.name.replace("_", ".") for data in TABLES["newsgroups"].sets} | {MEAN_ROW: "Average"}
    names["comp_os_ms_windows_misc"] = "comp.os.ms-windows.misc"
    for name, printed in names.items():
        assert line_of(text, printed, after="Data Set")[:2] == typed_row("newsgroups", place, name), name


def test_miml_figures_are_those_of_the_paper(paper):
    text = paper(0)
    for row in (row for data in TABLES["miml"].sets for row in data.row_names):
        assert line_of(text, row) == typed_row("miml", "Wang & Pinar, table 4", row), row


def percent(numbers):
    return pytest.approx([number / 100 for number in numbers])


def test_figures_of_kim_and_de_la_torre(paper):
    text = paper(1)
    for row in (data.name for data in TABLES["benchmarks"].sets):
        printed = line_of(text, row.upper())
        assert typed_row("benchmarks", "Kim & De la Torre, table 1", row, with_spread=True) == percent(printed), row
    for row in (data.name for data in TABLES["text"].sets):
        assert typed_row("text", "Kim & De la Torre, table 2", row) == percent(line_of(text, row.upper())), row
    printed = line_of(text, "160/166")
    assert typed_row("drug", "Kim & De la Torre, table 4", "160/166", with_spread=True) == percent(printed)
    found = re.search(r"\*\*([\d.]+) ± ([\d.]+)\*\* for the GP-SMX approach, and \*\*([\d.]+) ± ([\d.]+)\*\*", text)
    printed = [float(number) for number in found.groups()]
    assert typed_row("recovery", "Kim & De la Torre, section 6.1", "fresh-functions", with_spread=True) == printed


def test_candidate_figures_are_those_of_the_paper(paper):
    text = paper(3)
    columns = {"mnist": 0, "fmnist": 1, "birdsong": 3}
    blocks = re.findall(r"^[^\t\n]*\t1\t(.+)\n[^\t\n]*\t2\t(.+)\n[^\t\n]*\t3\t(.+)$", text, re.M)[:3]
    sure = [re.findall(r"^\t1\t(.+)\nSURE\t2", text, re.M)[0], re.findall(r"^SURE\t1\t(.+)$", text, re.M)[0]]
    for name, column in columns.items():
        for r in (1, 2, 3):
            printed = [float(block[r - 1].split("\t")[column].split("±")[0]) for block in blocks]
            assert typed_row("candidates", "Tang, Zhang & Zhang, table 2", f"{name}-{r}") == printed, (name, r)
        assert typed_row("candidates", "Tang, Zhang & Zhang, table 2, partial labels", f"{name}-1")[6:8] == [
            float(re.findall(r"0\.\d+", line.split("\t")[column])[0]) for line in sure
        ], name
        rows = [line_of(text, model, after="Table 4 ") for model in ("VWSGP", "VGPMIL", "LM-VGPMIL", "MIVAE")]
        printed = [row[2 * column] for row in rows]
        assert typed_row("candidates", "Tang, Zhang & Zhang, table 4", f"{name}-1") == printed, name


def test_group_figures_are_those_of_the_paper(paper):
    found = re.search(r"yields a value of ([\d.]+) for .*? compared to ([\d.]+) for the one", paper(4))
    printed = [float(number) for number in found.groups()]
    assert typed_row("groups", "Kück & de Freitas, figure 3", "figure-3") == printed
