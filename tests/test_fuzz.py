"""A few dozen of the spoilt files of ``make fuzz``: each is answered or refused."""

import pytest
from tests.fuzz.__main__ import run_case
from tests.fuzz.seeds import make_seeds

CASES = range(60)


@pytest.mark.filterwarnings("ignore")
def test_spoilt_files_are_answered_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_READ_LIMIT_GB", "0.2")
    (tmp_path / "seeds").mkdir()
    seeds = make_seeds(tmp_path / "seeds")
    told = [run_case(0, case, seeds, tmp_path / "failures") for case in CASES]
    assert [case for case in told if case["outcome"] == "failed"] == []
    assert {case["kind"] for case in told} == {"table", "archive", "bags", "model"}
    assert {case["outcome"] for case in told} == {"accepted", "refused"}
