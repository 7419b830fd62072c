"""The labelling page as a client sees it."""

import pytest
from tests.labelling.desk import lines, open_client


@pytest.fixture(scope="package")
def gated(tmp_path_factory):
    """A page that nobody may change; its folder."""
    folder = tmp_path_factory.mktemp("gated")
    _, page = open_client(folder)
    yield page, folder
    assert len(lines(folder)) == 1
