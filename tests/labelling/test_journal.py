"""Every answer is on disk."""

import json

import pytest

from bagwise.exceptions import BagDataError
from bagwise.labelling.journal import Journal
from bagwise.labelling.question import TWO, Question

YES_NO = Question(TWO, ("no", "yes"))


def test_journal_of_other_questions_or_with_a_damaged_line_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    Journal(path, "bags", YES_NO).answer("ann", ("x", None), [1], None, False)
    with pytest.raises(BagDataError, match="holds answers about bags"):
        Journal(path, "instances", YES_NO)
    with pytest.raises(BagDataError, match=r"with the options \['no', 'yes'\]"):
        Journal(path, "bags", Question(TWO, ("0", "1")))
    lines = path.read_text().splitlines()
    path.write_text(f"{lines[0]}\nnonsense\n{lines[1]}\n")
    with pytest.raises(BagDataError, match="line 2: not a line of answers"):
        Journal(path, "bags", YES_NO)
    broken = json.loads(lines[1]) | {"values": [7]}
    path.write_text(f"{lines[0]}\n{json.dumps(broken)}\n")
    with pytest.raises(BagDataError, match="is no answer"):
        Journal(path, "bags", YES_NO)
