"""Who may ask the labelling page, and what is refused."""

import json

import pytest
from tests.labelling.desk import TOKEN, lines

from bagwise.exceptions import BagDataError
from bagwise.labelling.gate import allowed_hosts, check_interface


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"host": "evil.example:8000", "origin": "http://evil.example:8000"}, 421),
        ({"host": "127.0.0.1:8001", "origin": "http://127.0.0.1:8001"}, 421),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_foreign_request_is_refused_and_changes_nothing(gated, headers, status):
    page, folder = gated
    body = json.dumps({"tab": "one", "item": 9, "values": [1]})
    usual = {"content-type": "application/json"}
    response = page.client.post(f"/{TOKEN}/answer", content=body, headers=usual | headers)
    assert response.status_code == status
    assert len(lines(folder)) == 1


@pytest.mark.parametrize("path", ["/", "/next", "/wrong/next", "//next", f"/{TOKEN}x/next", f"/x/{TOKEN}/next"])
def test_nothing_is_told_without_the_token(gated, path):
    assert gated[0].client.get(path).status_code == 403


@pytest.mark.parametrize(
    "told",
    [
        {"item": 0, "values": [2]},
        {"item": 0, "values": [0, 1]},
        {"item": 0, "values": "1"},
        {"item": 0, "values": [True]},
        {"item": 0},
        {"item": -1, "values": [1]},
        {"item": 10**9, "values": [1]},
        {"item": "x", "values": [1]},
        {"item": None, "values": [1]},
    ],
)
def test_malformed_answer_is_refused_and_not_stored(gated, told):
    page, folder = gated
    response = page.post("answer", **told)
    assert response.status_code == 422
    assert response.json()["error"]
    assert len(lines(folder)) == 1


def test_long_or_broken_requests_are_refused(gated):
    page, json_type = gated[0], {"content-type": "application/json"}
    long = page.client.post(f"/{TOKEN}/answer", content="[" * 100_000, headers=json_type)
    assert long.status_code == 413
    for content in ("{", "[]", "[" * 60_000):
        assert page.client.post(f"/{TOKEN}/answer", content=content, headers=json_type).status_code == 422


def test_other_interfaces_must_be_asked_for_twice():
    for host in ("127.0.0.1", "localhost", "::1"):
        check_interface(host, False)
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.org"):
        with pytest.raises(BagDataError, match="--allow-other-machines"):
            check_interface(host, False)
        check_interface(host, True)
    assert allowed_hosts("192.168.0.7", 80) == {"192.168.0.7:80"}
    assert "127.0.0.1:80" in allowed_hosts("0.0.0.0", 80)
    assert "[::1]:80" in allowed_hosts("::1", 80)
