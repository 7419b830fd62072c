"""The code of the page about large tables runs."""

from tests.test_guides import ROOT, run_page


def test_page_about_scale_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run_page(ROOT / "docs" / "scale.md")
    assert ran["bags"].stays_in_file
    assert ran["model"].predict_proba(ran["bags"]).shape == (60, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]
