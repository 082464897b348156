"""Commits, one by one and in batches: bytes to proposals, decisions to answers."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import msgspec
import structlog
from aiohttp import hdrs, web

from encoding.entries import EntryId
from encoding.errors import DecodeError
from encoding.json import decode_transformation
from log.batch import Answer, Proposal, Request, Reused
from log.store import Committed, Refusal
from metadata.epoch import Epoch
from services.cms.api import Api, Call, encode
from services.cms.bodies import Batch, BatchAnswer, Commit, CommitAnswer, Nothing
from services.cms.problems import Code, Problem, ProblemError, malformed, problem, refused
from services.cms.quick import quick_json
from services.cms.roles import Role, check_may_commit
from transformations.kinds import AnyTransformation, kind_of
from transformations.outcome import Reason

logger = structlog.get_logger()

_decode_commit = msgspec.json.Decoder(Commit).decode
_decode_batch = msgspec.json.Decoder(Batch).decode


async def commit(api: Api, call: Call[Nothing]) -> web.StreamResponse:
    """Decide and append one transformation. Safe to repeat: the client chose the entry id."""
    _check_json(call.request)
    body = _at_hand(api, call.request)
    try:
        wanted = _decode_commit(await _rest(api, call.request) if body is None else body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    proposal = _proposal(wanted, call.role)
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
    body = await read_json(api, call.request)
    try:
        wanted = _decode_batch(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    commits = wanted.commits
    proposals = tuple(_proposal(item, call.role, index) for index, item in enumerate(commits))
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


async def read_json(api: Api, request: web.BaseRequest) -> bytes:
    """The body, if it is said to be JSON and is not too large."""
    _check_json(request)
    return await read_body(api, request)


async def read_body(api: Api, request: web.BaseRequest) -> bytes:
    body = _at_hand(api, request)
    return await _rest(api, request) if body is None else body


def decoded(raw: msgspec.Raw, index: int | None = None) -> AnyTransformation:
    try:
        return decode_transformation(raw)
    except DecodeError as error:
        where = "transformation" if index is None else f"commits[{index}].transformation"
        raise malformed(error, where) from error


def _check_json(request: web.BaseRequest) -> None:
    given = request.headers.get(hdrs.CONTENT_TYPE, "")
    if given == "application/json":
        return
    media_type, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    plain = media_type.strip().lower() == "application/json"
    if not plain or charset not in ("", "charset=utf-8"):
        raise ProblemError(
            Code.UNSUPPORTED_MEDIA_TYPE,
            f"The body must be application/json in UTF-8, not {given or 'unnamed'}.",
            field="Content-Type",
        )


def _at_hand(api: Api, request: web.BaseRequest) -> bytes | None:
    """The body if it has come with the headers, as that of a commit has.

    Awaiting what is there already would double the time that a commit spends here.
    """
    length, limit = request.content_length, api.limits.body_bytes_max
    if length is not None and length > limit:
        raise _too_large(length, limit)
    if not request.content.is_eof():
        return None
    body = request.content.read_nowait()
    if len(body) > limit:
        raise _too_large(len(body), limit)
    return body


async def _rest(api: Api, request: web.BaseRequest) -> bytes:
    """The body of which more is to come; some clients ask first whether they may send it."""
    expected = request.headers.get(hdrs.EXPECT)
    if expected is not None:
        if expected.lower() != "100-continue":
            raise ProblemError(Code.MALFORMED, "Only 100-continue can be expected.", field="Expect")
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # What goes before the answer is not part of it.
        request.writer.output_size = 0
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(None, api.limits.body_bytes_max) from error


def _too_large(length: int | None, limit: int) -> ProblemError:
    found = "The body has" if length is None else f"{length} bytes are"
    return ProblemError(
        Code.TOO_LARGE, f"{found} more than the {limit} bytes allowed.", field="Content-Length"
    )


def _proposal(wanted: Commit, role: Role, index: int | None = None) -> Proposal:
    transformation = decoded(wanted.transformation, index)
    check_may_commit(role, transformation, index)
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
