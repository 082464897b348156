"""The CMS over real HTTP: starting, stopping, roles, metrics. Others use its `served`."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from uuid import uuid4

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from client.answers import Rejected
from client.client import Client as NodeClient
from client.errors import RequestError
from log.batch import Stamp
from log.memory import MemoryLog
from log.queue import OverloadedError
from log.sequencer import OutcomeUnknownError, StoppedError
from log.store import StoreUnavailableError
from metadata.directory import NodeId
from services.cms.engine import running
from services.cms.forwarding import SEQUENCE_PATH
from services.cms.http import serve
from services.http.limits import HttpLimits
from services.http.roles import Role, Tokens, TokensError
from services.http.serving import Address
from snapshots.memory import MemorySnapshots
from transformations.directory import Startup

FOUNDING = {"kind": "Initialize", "name": "test"}
QUICK = HttpLimits(slice_s=0.05, bookmark_interval_s=0.1, body_bytes_max=1024 * 1024)
SECRETS = {role: f"{role.name.lower()}-secret" for role in Role}


class Client:
    """A session that knows how to commit."""

    def __init__(self, session, engine, snapshots):
        self.session = session
        self.engine = engine
        self.snapshots = snapshots

    async def get(self, path, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(path, headers=named) as response:
            is_json = response.content_type.endswith("json")
            return response, await (response.json() if is_json else response.read())

    async def post(self, path, body, **headers):
        async with self.session.post(path, json=body, headers=headers) as response:
            return response.status, await response.json()

    async def commit(self, kind, *, entry_id=None, last_known=None, **fields):
        body = {
            "entry_id": entry_id or str(uuid4()),
            "transformation": {"kind": kind, **fields},
            "last_known": last_known,
        }
        return await self.post("/v1/commit", body)

    async def set(self, count):
        """So many entries more."""
        for number in range(count):
            status, _ = await self.commit("SetExtension", name=f"e{number}", value="x")
            assert status == 200


@asynccontextmanager
async def served(
    *, founded=True, tokens=None, limits=QUICK, store=None, clock_us=lambda: 1, **more
):
    snapshots = MemorySnapshots()
    async with (
        running(
            "cms-1", store or MemoryLog(), snapshots, lambda: Stamp("cms-1", clock_us())
        ) as engine,
        serve(engine, tokens=tokens, where=Address(), limits=limits, **more) as url,
        aiohttp.ClientSession(url) as session,
    ):
        client = Client(session, engine, snapshots)
        if founded:
            assert (await client.commit(**FOUNDING))[0] == 200
        yield client


@asynccontextmanager
async def alone(store):
    """An engine and a session, nothing between them yet."""
    async with (
        running("c", store, MemorySnapshots(), lambda: Stamp("c", 1)) as engine,
        aiohttp.ClientSession() as session,
    ):
        yield engine, session


def bearer(role):
    return {"Authorization": f"Bearer {SECRETS[role]}"}


def commit_body(kind, **fields):
    return {"entry_id": str(uuid4()), "transformation": {"kind": kind, **fields}}


async def test_without_a_valid_token_nothing_is_told():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        for header in ("", "Bearer wrong", "Basic viewer-secret", "Bearer "):
            response, problem = await client.get("/v1/log", Authorization=header)
            assert (response.status, problem["code"]) == (401, "unauthorized")
            assert problem["field"] == "Authorization"
            assert "Bearer" in response.headers["WWW-Authenticate"]
        response, _ = await client.get("/healthz")
        assert response.status == 200


@pytest.mark.parametrize("path", ["/v1/commit", "/healthz", "/console/", SEQUENCE_PATH])
async def test_without_tokens_a_page_whose_name_leads_here_is_not_answered(path):
    async def sequence(body):
        return body

    async with served(internal={SEQUENCE_PATH: sequence}) as client:
        before = client.engine.applied.metadata.epoch
        method = "POST" if path in ("/v1/commit", SEQUENCE_PATH) else "GET"
        body = commit_body("SetExtension", name="a", value="b")
        foreign = {"Host": "rebound.example:7400"}
        async with client.session.request(method, path, json=body, headers=foreign) as response:
            problem = await response.json()
            assert (response.status, problem["code"]) == (421, "wrong_host")
            assert problem["field"] == "Host"
        assert client.engine.applied.metadata.epoch == before
        for host in ("localhost:7400", "127.0.0.1"):
            assert (await client.get("/healthz", Host=host))[0].status == 200
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        assert (await client.get("/v1/log", **foreign, **bearer(Role.VIEWER)))[0].status == 200


async def test_without_tokens_the_advertised_name_is_answered():
    where = Address(advertised="cms-1.internal:7400")
    async with (
        alone(MemoryLog()) as (engine, session),
        serve(engine, tokens=None, where=where) as url,
    ):
        for host, status in (("cms-1.internal", 200), ("cms-2.internal", 421)):
            async with session.get(f"{url}/healthz", headers={"Host": host}) as response:
                assert response.status == status


@pytest.mark.parametrize(
    ("kind", "fields", "least"),
    [
        ("Startup", {"node": 9, "addresses": {"a": "b:1"}, "version": "1"}, Role.NODE),
        ("StartJoin", {"sequence": 9}, Role.NODE),
        ("SetExtension", {"name": "a", "value": "b"}, Role.OPERATOR),
        ("TriggerSnapshot", {}, Role.OPERATOR),
        ("UnsafeJoin", {"node": 9, "tokens": [1]}, Role.ADMIN),
        ("Assassinate", {"node": 9}, Role.ADMIN),
        ("PrepareCmsReconfiguration", {"add": [{"name": "a", "url": "http://a"}]}, Role.ADMIN),
    ],
)
async def test_each_kind_needs_its_role(kind, fields, least):
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        for role in Role:
            body = commit_body(kind, **fields)
            headers = {**bearer(role), "Ringlog-Node": "9"}
            status, answer = await client.post("/v1/commit", body, **headers)
            if role < least:
                assert (status, answer["code"]) == (403, "forbidden"), role
            else:
                assert (status, answer["code"]) == (409, "not_initialized"), role


async def test_a_node_says_which_it_is_and_commits_for_no_other():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        startup = {"node": 9, "addresses": {"a": "b:1"}, "version": "1"}
        for named, expected in (("9", 409), ("8", 403), (None, 403), ("nine", 400)):
            headers = {} if named is None else {"Ringlog-Node": named}
            body = commit_body("Startup", **startup)
            both = {"commits": [commit_body("StartJoin", sequence=1), body]}
            status, problem = await client.post("/v1/commit", body, **bearer(Role.NODE), **headers)
            assert status == expected
            if expected != 409:
                assert problem["field"] == "Ringlog-Node"
                status, _ = await client.post(
                    "/v1/commit/batch", both, **bearer(Role.NODE), **headers
                )
                assert status == expected


async def test_the_client_sends_as_a_node():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        url = str(client.session._base_url)
        startup = Startup(node=NodeId(9), addresses={"a": "b:1"}, version="1")
        async with NodeClient(url, SECRETS[Role.NODE]) as node:
            with pytest.raises(RequestError, match="Ringlog-Node"):
                await node.commit(startup)
            node.send_as(9)
            refused = await node.commit(startup)
            assert isinstance(refused, Rejected)
            assert refused.code == "not_initialized"


async def test_a_viewer_commits_not_even_nothing():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        nothing: dict[str, list] = {"commits": []}
        for path in ("/v1/commit/batch", "/v1/commit"):
            status, problem = await client.post(path, nothing, **bearer(Role.VIEWER))
            assert (status, problem["code"]) == (403, "forbidden")
            assert problem["field"] == "Authorization"


async def test_one_forbidden_commit_stops_the_batch():
    async with served(tokens=Tokens(SECRETS), founded=False) as client:
        body = {
            "commits": [commit_body("Initialize", name="a"), commit_body("Assassinate", node=1)]
        }
        status, problem = await client.post("/v1/commit/batch", body, **bearer(Role.OPERATOR))
        assert (status, problem["code"], problem["index"]) == (403, "forbidden", 1)
        assert client.engine.applied.metadata.epoch == 0


async def test_without_tokens_only_this_machine_is_served():
    async with served() as client:
        for host in ("0.0.0.0", "::", "example.org"):
            with pytest.raises(TokensError):
                await serve(client.engine, tokens=None, where=Address(host=host)).__aenter__()


async def test_another_clusters_id_is_refused():
    async with served() as client:
        own = client.engine.applied.metadata.cluster.id
        response, _ = await client.get("/v1/log", Ringlog_Cluster=own)
        assert response.status == 200
        response, problem = await client.get("/v1/log", Ringlog_Cluster=str(uuid4()))
        assert (response.status, problem["code"]) == (409, "wrong_cluster")
        assert problem["field"] == "Ringlog-Cluster"


async def test_internal_paths_need_the_cluster():
    async def echo(body):
        return body[::-1]

    async with served(internal={"/internal/v1/echo": echo}) as client:
        own = client.engine.applied.metadata.cluster.id
        async with client.session.post("/internal/v1/echo", data=b"abc") as response:
            assert response.status == 409
        headers = {"Ringlog-Cluster": own}
        async with client.session.post("/internal/v1/echo", data=b"abc", headers=headers) as found:
            assert await found.read() == b"cba"


class SlowLog(MemoryLog):
    """An append waits until it is let go."""

    def __init__(self):
        super().__init__()
        self.free = asyncio.Event()
        self.reached = asyncio.Event()

    async def append(self, *args, **named):
        self.reached.set()
        await self.free.wait()
        return await super().append(*args, **named)


async def test_what_was_accepted_is_answered_before_the_end():
    store = SlowLog()
    async with alone(store) as (engine, session):
        async with serve(engine, tokens=None, where=Address(), limits=QUICK) as url:
            body = commit_body(**FOUNDING)
            sent = asyncio.create_task(session.post(f"{url}/v1/commit", json=body))
            await store.reached.wait()
            asyncio.get_running_loop().call_later(0.2, store.free.set)
        response = await sent
        assert response.status == 200
        assert (await response.json())["epoch"] == 1
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{url}/healthz")


async def test_a_long_poll_does_not_hold_up_the_end():
    async with alone(MemoryLog()) as (engine, session):
        async with serve(engine, tokens=None, where=Address(), limits=QUICK) as url:
            sent = asyncio.create_task(session.get(f"{url}/v1/log?wait=60"))
            text = ""
            while "ringlog_followers 1.0" not in text:
                text = await (await session.get(f"{url}/metrics")).text()
        async with asyncio.timeout(5):
            assert (await (await sent).json())["entries"] == []


async def test_a_client_that_leaves_does_not_stop_its_append():
    store = SlowLog()
    async with served(founded=False, store=store) as client:
        sent = asyncio.create_task(client.commit(**FOUNDING))
        await store.reached.wait()
        sent.cancel()
        store.free.set()
        async with asyncio.timeout(5):
            await client.engine.wait_beyond(0, 5)
        assert client.engine.applied.metadata.epoch == 1


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OverloadedError(), 429, "overloaded"),
        (OutcomeUnknownError(), 503, "unknown"),
        (StoppedError(), 503, "stopping"),
        (StoreUnavailableError(), 503, "unavailable"),
    ],
)
async def test_failures_say_when_to_come_back(error, status, code):
    async with served() as client:

        async def fail(_request):
            raise error

        client.engine.commit = fail
        body = commit_body("TriggerSnapshot")
        async with client.session.post("/v1/commit", json=body) as response:
            problem = await response.json()
        assert (response.status, problem["code"]) == (status, code)
        assert int(response.headers["Retry-After"]) >= 1


async def test_a_bug_is_a_500_and_the_service_stays():
    async with served() as client:

        async def fail():
            raise ZeroDivisionError("secret")

        client.engine.latest = fail
        response, problem = await client.get("/v1/metadata")
        assert (response.status, problem["code"]) == (500, "internal")
        assert "secret" not in problem["detail"]
        assert (await client.get("/healthz"))[0].status == 200


async def test_metrics_count_what_happened():
    async with served() as client:
        await client.set(2)
        await client.commit("StartJoin", sequence=7)
        _, text = await client.get("/metrics")
        lines = text.decode().splitlines()
        assert 'ringlog_commit_seconds_count{outcome="committed"} 3.0' in lines
        assert 'ringlog_rejections_total{code="unknown_sequence"} 1.0' in lines
        assert "ringlog_tip_epoch 3.0" in lines
        assert 'ringlog_requests_total{method="POST",path="/v1/commit",status="200"} 3.0' in lines


async def test_ready_means_that_the_log_answers():
    async with served() as client:
        assert (await client.get("/readyz"))[0].status == 200

        async def fail():
            raise StoreUnavailableError

        client.engine.latest = fail
        response, problem = await client.get("/readyz")
        assert (response.status, problem["code"]) == (503, "unavailable")
        assert (await client.get("/healthz"))[0].status == 200


async def test_serves_over_tls(tmp_path):
    certificate, key = _certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)
    async with served() as client:
        where = Address(ssl_context=context)
        async with serve(client.engine, tokens=None, where=where) as url:
            assert url.startswith("https://")
            async with client.session.get(f"{url}/healthz", ssl=trusting) as response:
                assert response.status == 200


def _certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths
