"""Founding a cluster whose processes somebody else has started."""

import asyncio

import pytest

from metadata.partitioners import Partitioner
from migrations.apply import apply
from services.founding.__main__ import run
from services.founding.settings import FoundingSettings
from services.local.failure import LocalServerError
from services.local.ports import HeldPorts
from services.local.tokens import make_tokens
from tests.integration.nodes import House, node


def settings(made, folder, nodes=()):
    return FoundingSettings(
        state_dir=folder,
        cms={"cms-1": made.url},
        nodes=tuple(f"http://{item.advertised}" for item in nodes),
        name="test",
        partitioner=Partitioner.XXHASH64,
    )


async def test_it_is_founded_once_and_the_first_nodes_share_it(database, tmp_path):
    make_tokens(tmp_path / "tokens.json")
    with HeldPorts() as ports:
        made = House(database, ports, tmp_path)
        await made.open_cms()
        try:
            own = [made.settings(name) for name in ("node-1", "node-2")]
            # Nodes that run already wait for the first entry.
            founding = asyncio.ensure_future(run(settings(made, tmp_path, own)))
            async with node(own[0]), node(own[1]):
                await founding
                metadata = made.applied.metadata
                await run(settings(made, tmp_path, own))

                assert made.applied.metadata.epoch == metadata.epoch
            assert (metadata.cluster.name, len(metadata.ring.by_node)) == ("test", 2)
            assert [member.url for member in metadata.cms.members.values()] == [made.url]
        finally:
            await made.close_cms()


async def test_a_log_that_was_lost_is_not_founded_again(database, blank_database, tmp_path):
    make_tokens(tmp_path / "tokens.json")
    with HeldPorts() as ports:
        made = House(database, ports, tmp_path)
        await made.open_cms()
        await run(settings(made, tmp_path))
        await made.close_cms()

        await apply(blank_database)
        await made.open_cms(blank_database)
        try:
            with pytest.raises(LocalServerError, match="log is empty now"):
                await run(settings(made, tmp_path))
            assert made.applied.metadata.epoch == 0
        finally:
            await made.close_cms()
