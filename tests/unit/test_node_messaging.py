"""What a coordinator believes of a node that breaks off and then answers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from client.transport import new_session
from metadata.directory import NodeId
from metadata.epoch import Epoch
from metadata.schema import TableId
from services.http.data_messages import ReplicaWrite
from services.http.problems import Code, problem
from services.node.data.messaging import Messenger, SilentError

NODE = NodeId(2)
MESSAGE = ReplicaWrite(epoch=Epoch(1), table=TableId(1), rows=())


DEEP = 100_000


def answering(status, body):
    return b"HTTP/1.1 %d so\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def refusing(code):
    found = problem(code, "no")
    return answering(found.status, msgspec.json.encode(found))


@asynccontextmanager
async def peer(*answers):
    """A node that takes a message in and answers so; where that is nothing, it breaks off."""
    left = list(answers)

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(left.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clock = asyncio.get_running_loop().time
    async with server, new_session(None, None) as session:
        yield Messenger(session, lambda: {NODE: f"http://127.0.0.1:{port}"}, clock)
    assert not left


@pytest.mark.parametrize("code", [Code.OVERLOADED, Code.UNAVAILABLE, Code.STOPPING])
async def test_a_refusal_of_the_second_try_says_nothing_of_the_first(code):
    async with peer(b"", refusing(code)) as messenger:
        with pytest.raises(SilentError, match=code) as raised:
            await messenger.write(NODE, MESSAGE)

    assert raised.value.may_have_arrived


async def test_whoever_refuses_at_once_has_nothing():
    async with peer(refusing(Code.OVERLOADED)) as messenger:
        with pytest.raises(SilentError) as raised:
            await messenger.write(NODE, MESSAGE)

    assert not raised.value.may_have_arrived


@pytest.mark.parametrize(
    "answer",
    [
        answering(200, b""),
        answering(200, b"\x81\xa1\xff\x01"),
        answering(200, b"\x81\xa1x" + b"\x91" * DEEP + b"\xc0"),
        answering(500, b'{"detail": "\xff"}'),
        answering(500, b'{"x":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    ],
    ids=["nothing", "no text", "deep", "a refusal without text", "a deep refusal"],
)
async def test_of_an_answer_that_makes_no_sense_nobody_knows_what_was_done(answer):
    async with peer(answer) as messenger:
        with pytest.raises(SilentError) as raised:
            await messenger.write(NODE, MESSAGE)

    assert raised.value.may_have_arrived
