"""Commits, one by one and in batches: bytes to proposals, decisions to answers."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import msgspec
import structlog
from aiohttp import web

from encoding.entries import EntryId
from encoding.errors import DecodeError
from encoding.json import decode_transformation
from log.batch import Answer, Proposal, Request, Reused
from log.store import Committed, Refusal
from metadata.epoch import Epoch
from services.cms.api import Api
from services.cms.bodies import Batch, BatchAnswer, Commit, CommitAnswer
from services.cms.rights import Committer, check_may_commit, committer
from services.http.api import Call, encode
from services.http.bodies import Nothing
from services.http.problems import Code, Problem, ProblemError, malformed, problem, refused
from services.http.quick import quick_json
from services.http.reading import at_hand, check_json, read_json, rest_of
from services.http.routing import NODE_HEADER
from transformations.kinds import AnyTransformation, kind_of
from transformations.outcome import Reason

logger = structlog.get_logger()

_decode_commit = msgspec.json.Decoder(Commit).decode
_decode_batch = msgspec.json.Decoder(Batch).decode


async def commit(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """Decide and append one transformation. Safe to repeat: the client chose the entry id."""
    check_json(call.request)
    body = at_hand(api.limits, call.request)
    try:
        wanted = _decode_commit(await rest_of(api.limits, call.request) if body is None else body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    proposal = _proposal(api, wanted, _committer(call))
    if wanted.last_known is not None:
        await _check_known(api, wanted.last_known)
    (answer,) = await _decided(api, Request((proposal,)))
    match _told(api, proposal, answer):
        case CommitAnswer() as told:
            if wanted.last_known is not None:
                told = await _with_missed(api, told, wanted.last_known)
                return await api.json(call.request, told)
            return quick_json(call.request, encode(told))
        case Problem() as found:
            return api.problem(found)


async def commit_batch(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """Decide and append up to 1,000, each by itself or all or none."""
    body = await read_json(api.limits, call.request)
    try:
        wanted = _decode_batch(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    commits = wanted.commits
    who = _committer(call)
    proposals = tuple(_proposal(api, item, who, index) for index, item in enumerate(commits))
    known = [item.last_known for item in commits if item.last_known is not None]
    if known:
        await _check_known(api, max(known))
    answers = await _decided(api, Request(proposals, wanted.atomic)) if proposals else []
    told = [_told(api, *pair) for pair in zip(proposals, answers, strict=False)]
    last = told[-1] if told else None
    if wanted.atomic and isinstance(last, Problem):
        return api.problem(msgspec.structs.replace(last, index=len(told) - 1))
    outcomes: list[msgspec.Raw] = []
    for item, found in zip(commits, told, strict=True):
        if isinstance(found, CommitAnswer) and item.last_known is not None:
            found = await _with_missed(api, found, item.last_known)  # noqa: PLW2901 - grown
        outcomes.append(msgspec.Raw(encode(found)))
    return await api.json(call.request, BatchAnswer(outcomes))


def decoded(raw: msgspec.Raw, index: int | None = None) -> AnyTransformation:
    try:
        return decode_transformation(raw)
    except DecodeError as error:
        where = "transformation" if index is None else f"commits[{index}].transformation"
        raise malformed(error, where) from error


def _committer(call: Call[Nothing]) -> Committer:
    return committer(call.role, call.request.headers.get(NODE_HEADER))


def _proposal(api: Api, wanted: Commit, who: Committer, index: int | None = None) -> Proposal:
    transformation = decoded(wanted.transformation, index)
    check_may_commit(who, transformation, api.engine.applied.metadata.directory, index)
    return Proposal(
        entry_id=EntryId(wanted.entry_id),
        transformation=transformation,
        actor=wanted.actor,
        reason=wanted.reason,
    )


async def _check_known(api: Api, known: Epoch) -> None:
    """Whoever has seen an epoch that the log has not must not be answered as if all were well."""
    if known <= api.engine.applied.metadata.epoch:
        return
    tip = (await api.engine.latest()).metadata.epoch
    if known > tip:
        raise ProblemError(
            Code.DIVERGED,
            f"Epoch {known} is beyond the tip, which is {tip}: this log has lost entries, or "
            "it is another one.",
            field="last_known",
            tip=tip,
        )


async def _decided(api: Api, request: Request) -> Sequence[Answer]:
    started = perf_counter()
    answers: Sequence[Answer] = ()
    try:
        answers = await api.engine.commit(request)
    finally:
        outcome = _OUTCOMES[type(answers[0])] if answers else "failed"
        api.metrics.commits[outcome].observe(perf_counter() - started)
    return answers


_OUTCOMES: dict[type, str] = {Committed: "committed", Refusal: "refused", Reused: "reused"}


def _told(api: Api, proposal: Proposal, answer: Answer) -> CommitAnswer | Problem:
    match answer:
        case Committed():
            return CommitAnswer(
                epoch=answer.epoch,
                entry_id=answer.entry_id,
                result=answer.result,
                hash=answer.hash.hex(),
            )
        case Refusal():
            api.metrics.rejections[answer.rejected.reason.value] += 1
            if answer.rejected.reason is Reason.INTERNAL:
                logger.error(
                    "decision_failed",
                    entry_id=str(answer.entry_id),
                    kind=kind_of(proposal.transformation),
                    detail=answer.rejected.detail,
                )
            return refused(answer.rejected, epoch=answer.epoch, entry_id=answer.entry_id)
        case Reused():
            return problem(
                Code.ENTRY_ID_REUSED,
                "The entry id was used before for another transformation; take a new one.",
                field="entry_id",
                entry_id=answer.entry_id,
            )


async def _with_missed(api: Api, told: CommitAnswer, known: Epoch) -> CommitAnswer:
    """With what the client has missed, as far as fits; it asks the log for the rest.

    Another process may have sequenced the commit, so this one first catches up with it.
    """
    await api.engine.reached(told.epoch)
    entries = await api.engine.entries_after(
        known,
        entries_max=api.limits.page_entries_max,
        bytes_max=api.limits.page_bytes_max,
    )
    texts = [msgspec.Raw(api.texts.of(sealed)) for sealed in entries]
    return msgspec.structs.replace(told, entries=texts)
