"""What a driver says about a change of the members of the CMS."""

from __future__ import annotations

from typing import Any

from sequences.ports import WorkError
from sequences.status import Board, Doing
from tests.builders import commit, joined_cluster
from tests.unit.test_sequences_driver import Town, driven, until
from transformations.cms import NewMember, PrepareCmsReconfiguration


async def test_a_change_of_the_cms_that_does_not_go_on_says_why_and_since_when():
    change = PrepareCmsReconfiguration(add=(NewMember("a", "http://127.0.0.1:1"),))
    town: Any = Town(commit(joined_cluster(nodes=1), change))
    board, plain = Board(), town.commit
    reported: list[Any] = []

    async def fails(transformation, reason):
        raise WorkError(f"nobody answers {type(transformation).__name__} of {reason}")

    town.commit = fails
    async with driven(town, board, report=lambda *_: reported.append(board.reconfiguration)):
        await until(lambda: len(reported) > 2)
        first, second = reported[1:3]
        assert (second.doing, second.failures) == (Doing.STUCK, 2)
        assert "nobody answers AdvanceCmsReconfiguration" in second.detail
        assert (first.sequence, first.since_s) == (town.metadata.epoch, second.since_s)
        town.commit = plain
        await until(lambda: town.metadata.cms.reconfiguration is None)
        await until(lambda: board.reconfiguration is None)
