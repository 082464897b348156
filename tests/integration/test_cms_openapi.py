"""The OpenAPI document describes the server: what it says is what happens."""

from __future__ import annotations

import asyncio
import threading
from queue import Queue

import hypothesis
import jsonschema
import pytest
import requests
import schemathesis
from schemathesis import GenerationMode
from schemathesis import checks as known

from services.cms.routes import ROUTES
from services.http.reports import REPORTS_PATH
from tests.integration.test_cms_reads import populated
from tests.integration.test_cms_serving import served
from transformations.kinds import KINDS

EXAMPLES_MAX = 10
# A stream does not end by itself, and what a node invents is another history: it stops commits.
TRIED = sorted(
    (route for route in ROUTES if route.path != "/v1/log/stream"),
    key=lambda route: route.path == REPORTS_PATH,
)


@pytest.fixture(scope="module")
def url():
    """A server in a thread of its own, because the tests below do not await."""
    urls: Queue[str] = Queue()
    ended = threading.Event()

    async def run():
        async with served() as client:
            await client.set(3)
            urls.put(str(client.session._base_url))
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    yield urls.get(timeout=10)
    ended.set()
    thread.join(timeout=10)


@pytest.fixture(scope="module")
def document(url):
    return requests.get(f"{url}/openapi.json", timeout=5).json()


def test_the_document_has_every_path_and_kind(document):
    listed = {(route.method.lower(), route.path) for route in ROUTES}
    found = {(method, path) for path, item in document["paths"].items() for method in item}
    assert found == listed
    schemas = document["components"]["schemas"]
    assert set(KINDS) <= set(schemas)
    assert len(schemas["Transformation"]["oneOf"]) == len(KINDS)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = {item["name"] for item in document["paths"]["/v1/log"]["get"]["parameters"]}
    assert {"after", "limit", "wait", "hash", "snapshot", "stale"} <= names


FOUND = [
    ("/v1/owners", "?keyspace=k&token=7"),
    ("/v1/tokens", "?node=1&count=3"),
    ("/v1/diff", "?from=0&to=9"),
    ("/v1/sequences", ""),
    ("/v1/sequences/{id}", ""),
    ("/v1/metadata", "?at=9"),
    ("/v1/nodes", ""),
    ("/v1/nodes", "?at=5"),
    ("/v1/propagation", ""),
    ("/v1/divergences", ""),
    ("/v1/log", "?after=0"),
    ("/v1/log/{epoch}", ""),
    ("/v1/snapshots", ""),
]


async def test_answers_about_a_real_cluster_are_as_described():
    """Random requests seldom name what exists."""
    async with served() as client:
        await populated(client)
        _, document = await client.get("/openapi.json")
        for path, query in FOUND:
            content = document["paths"][path]["get"]["responses"]["200"]["content"]
            schema = {**content["application/json"]["schema"], "components": document["components"]}
            target = path.replace("{id}", "9").replace("{epoch}", "9")
            response, answer = await client.get(target + query)
            assert response.status == 200, answer
            jsonschema.Draft202012Validator(schema).validate(answer)


CHECKS = [
    known.not_a_server_error,
    known.status_code_conformance,
    known.content_type_conformance,
    known.response_headers_conformance,
    known.response_schema_conformance,
]


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("route", TRIED, ids=lambda route: f"{route.method} {route.path}")
def test_no_request_breaks_the_server_or_its_promise(document, url, route, mode):
    cluster = requests.get(f"{url}/healthz", timeout=5).json()["cluster"]
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=url)
    operation = schema[route.path][route.method]

    @hypothesis.settings(
        max_examples=EXAMPLES_MAX,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def each(case):
        # Any other cluster is refused, and nothing else would be tried.
        case.headers["Ringlog-Cluster"] = cluster
        case.query.pop("wait", None)
        case.call_and_validate(timeout=5, checks=CHECKS)

    try:
        each()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "a path without parameters cannot be misused"
    assert requests.get(f"{url}/healthz", timeout=5).status_code == 200
