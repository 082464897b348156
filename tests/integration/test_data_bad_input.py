"""Rows that make no sense: every refusal is the client's to mend, and says at which epoch."""

from __future__ import annotations

from io import BytesIO

import pytest
from yarl import URL

from metadata.epoch import Epoch
from services.node.data.fitness import _Doubt
from tests.integration.data_cluster import data_cluster

T = "/v1/tables/shop/t/rows"


@pytest.fixture
async def one(database, tmp_path):
    async with data_cluster(database, tmp_path, nodes=1, factor=1) as made:
        yield made


async def sent(cluster, method, path, body=None):
    """As it is, byte by byte."""
    url = URL(f"{cluster.nodes[1].url}{path}", encoded=True)
    headers = {} if body is None else {"Content-Type": "application/json"}
    data = None if body is None else BytesIO(body)
    async with cluster.session.request(method, url, data=data, headers=headers) as response:
        return response.status, await response.json()


async def test_a_value_of_any_depth_is_refused(one):
    """Some can just be decoded, but not be shown any more: how deep that is depends on much."""
    for depth in range(900, 1000, 2):
        for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
            nested = left * depth + b"1" + right * depth
            columns = b'{"a_string": %b}' % nested
            status, problem = await sent(one, "PUT", f"{T}/k", b'{"columns": %b}' % columns)
            assert (status, problem["code"]) == (400, "malformed"), (depth, problem)
            rows = b'{"rows": [{"key": "k", "columns": %b}]}' % columns
            status, answer = await sent(one, "POST", T, rows)
            found = answer["outcomes"][0] if status == 200 else answer
            assert found["code"] == "malformed", (depth, found)


REFUSED: list[tuple[str, str, bytes | None, int]] = [
    ("PUT", f"{T}/k", b"{", 400),
    ("PUT", f"{T}/k", b'{"columns": {}, "timestamp": -1}', 400),
    ("PUT", f"{T}/k", b'{"columns": {"a_int": 1.5}}', 400),
    ("PUT", f"{T}/{'k' * 9000}", b'{"columns": {}}', 400),
    ("GET", f"{T}/{'k' * 9000}", None, 400),
    ("DELETE", f"{T}/{'k' * 9000}", None, 400),
    ("GET", f"{T}/none", None, 404),
    ("GET", "/v1/tables/shop/none/rows/k", None, 404),
    ("POST", T, b'{"rows": [{}]}', 400),
    ("POST", T, b" " * (32 * 1024 * 1024 + 1), 413),
]


async def test_a_refusal_tells_the_epoch_too(one):
    for method, path, body, wanted in REFUSED:
        status, problem = await sent(one, method, path, body)
        found = (status, problem.get("epoch"))
        assert found == (wanted, one.home.applied.metadata.epoch), (method, path[:60], problem)
    one.nodes[1].plane.fitness._doubt = _Doubt(Epoch(1), set_back=True, repaired=())
    for method, body in (("GET", None), ("DELETE", None), ("PUT", b'{"columns": {}}')):
        status, problem = await sent(one, method, f"{T}/k", body)
        assert (status, problem["code"]) == (503, "needs_repair")
        assert problem["epoch"] == one.home.applied.metadata.epoch


async def test_a_key_that_does_not_even_fit_into_a_request_is_said_to_be_too_long(one):
    for path in (f"{T}/{'k' * 20_000}", f"{T}/{'%41' * 8192}", f"{T}/k?epoch={'1' * 20_000}"):
        status, problem = await sent(one, "GET", path)
        assert (status, problem["code"]) == (400, "malformed")
        assert "longer than the 16384 bytes allowed" in problem["detail"]
