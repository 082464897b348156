"""Whatever a client sends, it gets a problem that names the field, and the service stays up."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from tests.integration.test_cms_serving import commit_body, served

GOOD = {"kind": "SetExtension", "name": "a", "value": "b"}
ID = "8d0a3c0e-5d0f-4a6e-9f53-1f6d3a7b2c41"


def body(**changes):
    return json.dumps({"entry_id": ID, "transformation": GOOD, **changes}).encode()


def inner(**changes):
    return body(transformation={**GOOD, **changes})


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", None),
        (b"not json", None),
        (b"\xff\xfe{}", None),
        (b'{"entry_id": "\xff"}', None),
        (b"[]", None),
        (b"{}", "entry_id"),
        (body(entry_id="no-uuid"), "entry_id"),
        (body(entry_id=5), "entry_id"),
        (body(surprise=1), "surprise"),
        (body(last_known=-1), "last_known"),
        (body(last_known=2**60), "last_known"),
        (body(last_known=2**80), "last_known"),
        (body(last_known="1"), "last_known"),
        (body(actor=""), "actor"),
        (body(reason="a\x00b"), "reason"),
        (body(transformation=None), "transformation"),
        (body(transformation={}), "transformation.kind"),
        (body(transformation={"kind": "Nonsense"}), "transformation.kind"),
        (inner(name="no spaces"), "transformation.name"),
        (inner(value=7), "transformation.value"),
        (inner(surprise=1), "transformation.surprise"),
        (b"[" * 10_000 + b"]" * 10_000, None),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, None),
        (body().replace(b'"b"', b"[" * 10_000 + b"]" * 10_000), None),
    ],
)
async def test_a_malformed_commit_is_400(data, field):
    async with served() as client:
        headers = {"Content-Type": "application/json"}
        async with client.session.post("/v1/commit", data=data, headers=headers) as response:
            problem = await response.json(content_type="application/problem+json")
        assert (response.status, problem["code"]) == (400, "malformed"), problem
        assert field is None or problem.get("field") == field, problem
        assert (await client.commit(**GOOD))[0] == 200


async def test_a_field_in_a_batch_is_named_with_its_place():
    async with served() as client:
        commits = [commit_body(**GOOD), commit_body("SetExtension", name="a", value=1)]
        status, problem = await client.post("/v1/commit/batch", {"commits": commits})
        assert (status, problem["field"]) == (400, "commits[1].transformation.value")
        commits[1] = {**commits[0], "entry_id": "x"}
        status, problem = await client.post("/v1/commit/batch", {"commits": commits})
        assert (status, problem["field"].startswith("commits")) == (400, True)
        commits = [commit_body(**GOOD) for _ in range(1001)]
        status, problem = await client.post("/v1/commit/batch", {"commits": commits})
        assert (status, problem["field"]) == (400, "commits")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=x"]
)
async def test_a_wrong_content_type_is_415(media_type):
    async with served() as client:
        headers = {"Content-Type": media_type}
        async with client.session.post("/v1/commit", data=body(), headers=headers) as response:
            problem = await response.json()
        assert (response.status, problem["field"]) == (415, "Content-Type")


async def test_json_may_name_its_charset():
    async with served() as client:
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        async with client.session.post("/v1/commit", data=body(), headers=headers) as response:
            assert response.status == 200


async def test_a_body_of_100_megabytes_is_not_read():
    async with served() as client:
        url = client.session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(
            b"POST /v1/commit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100000000\r\n\r\n{"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 413 " in head.splitlines()[0]
        assert b'"too_large"' in await reader.read(1000)
        writer.close()


async def test_a_client_may_ask_before_it_sends():
    async with served() as client:
        url = client.session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = b"POST /v1/commit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body()))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body())
        assert b" 200 " in (await reader.readuntil(b"\r\n\r\n")).splitlines()[0]
        writer.close()


async def test_a_body_that_unpacks_to_too_much_is_refused():
    async with served() as client:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        data = gzip.compress(b" " * 20_000_000)
        async with client.session.post("/v1/commit", data=data, headers=headers) as response:
            assert response.status == 413
        async with client.session.post("/v1/commit", data=b"no gzip", headers=headers) as response:
            assert response.status == 400


async def test_a_chunked_body_has_the_same_limit():
    async def chunks():
        for _ in range(40):
            yield b" " * 65536

    async with served() as client:
        headers = {"Content-Type": "application/json"}
        async with client.session.post("/v1/commit", data=chunks(), headers=headers) as response:
            problem = await response.json()
        assert (response.status, problem["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/v1/log?after=-1", 400, "after"),
        ("/v1/log?after=x", 400, "after"),
        ("/v1/log?after=99999999999999999999999", 400, "after"),
        ("/v1/log?after=2", 409, "after"),
        ("/v1/log?after=1&after=1", 400, "after"),
        ("/v1/log?limit=0", 400, "limit"),
        ("/v1/log?wait=-1", 400, "wait"),
        ("/v1/log?hash=abc", 400, "hash"),
        ("/v1/log?surprise=1", 400, "surprise"),
        ("/v1/log?after=%ff", 400, "query"),
        ("/v1/log/stream?after=2", 409, "after"),
        ("/v1/log/0", 404, "epoch"),
        ("/v1/log/2", 404, "epoch"),
        ("/v1/log/-1", 400, "epoch"),
        ("/v1/log/%ff", 400, "epoch"),
        ("/v1/metadata?at=2", 404, "at"),
        ("/v1/metadata?at=1.5", 400, "at"),
        ("/v1/metadata/nonsense", 404, "component"),
        ("/v1/owners?token=1", 400, "keyspace"),
        ("/v1/owners?keyspace=k&token=99999999999999999999", 400, "token"),
        ("/v1/diff?from=0", 400, "to"),
        ("/v1/diff?from=0&to=2", 404, "to"),
        ("/v1/sequences/x", 400, "id"),
        ("/v1/sequences/1", 404, "id"),
        ("/v1/snapshots/1", 404, "epoch"),
        ("/v1/schemas/abc", 404, "fingerprint"),
        ("/nowhere", 404, None),
        ("/v1/commit", 405, None),
    ],
)
async def test_a_wrong_read_names_the_field(path, status, field):
    async with served() as client:
        response, problem = await client.get(path)
        assert (response.status, problem.get("field")) == (status, field), problem
        assert response.content_type == "application/problem+json"
        assert problem["status"] == status


async def test_a_method_that_is_not_there_names_those_that_are():
    async with served() as client, client.session.delete("/v1/log") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "lines",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_a_problem(lines):
    async with served() as client:
        url = client.session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(lines)
        answer = await reader.read()
        assert b" 400 " in answer.splitlines()[0]
        assert b"application/problem+json" in answer
        writer.close()
        assert (await client.get("/healthz"))[0].status == 200
