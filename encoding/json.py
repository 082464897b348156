"""Transformations, outcomes and entries as JSON, for people and browsers.

Tokens are decimal strings, because browsers lose 64-bit integers; numbers are understood too.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from encoding.entries import Entry
from encoding.errors import DecodeError
from encoding.rewriting import Rewrite, rewriting
from metadata.limits import Decimal
from metadata.tokens import MAXIMUM, MINIMUM, Token
from transformations.kinds import KINDS, AnyTransformation
from transformations.outcome import Rejected, Result

Plain = dict[str, Any]
"""An object as any JSON library writes it."""

_decoder = msgspec.json.Decoder(AnyTransformation)
_DIGITS_MAX = 60
_number = re.compile(rf"-?[0-9]{{1,{_DIGITS_MAX}}}")


def decode_transformation(data: bytes | msgspec.Raw) -> AnyTransformation:
    """A transformation from `{"kind": …, …}`."""
    found: AnyTransformation
    try:
        found = _decoder.decode(data)
    except msgspec.ValidationError as error:
        found = _decode_leniently(data, error)
    except (ValueError, RecursionError) as error:
        raise DecodeError(_malformed(error)) from error
    _check_image(found)
    return found


def transformation_json(transformation: AnyTransformation) -> Plain:
    plain = as_plain(transformation)
    rewrite = _to_text(type(transformation))
    return plain if rewrite is None else rewrite(plain)


def result_json(result: Result) -> Plain:
    return as_plain(result)


def as_plain(value: msgspec.Struct) -> Plain:
    """What a reader of the JSON gets: lists for tuples, text for enums and keys."""
    return msgspec.json.decode(msgspec.json.encode(value), type=Plain)


def rejection_json(rejected: Rejected) -> Plain:
    """The members of a problem document that a rejection fills in; absent ones are left out."""
    plain = {
        "code": rejected.reason.value,
        "detail": rejected.detail,
        "remedy": rejected.remedy,
        "sequence": rejected.sequence,
        "step": rejected.step and rejected.step.value,
        "ranges": [{"left": str(span.left), "right": str(span.right)} for span in rejected.ranges],
    }
    return {name: value for name, value in plain.items() if value not in (None, [])}


def entry_json(entry: Entry, *, previous_hash: bytes, entry_hash: bytes) -> Plain:
    return {
        "cluster": entry.cluster,
        "epoch": entry.epoch,
        "entry_id": str(entry.entry_id),
        "kind": entry.kind,
        "transformation": transformation_json(entry.transformation),
        "result": result_json(entry.result),
        "digest": entry.digest.hex(),
        "actor": entry.actor,
        "reason": entry.reason,
        "committed_at": entry.committed_at,
        "committed_by": entry.committed_by,
        "previous_hash": previous_hash.hex(),
        "hash": entry_hash.hex(),
    }


def _decode_leniently(
    data: bytes | msgspec.Raw, strict: msgspec.ValidationError
) -> AnyTransformation:
    """Try again with tokens as text and figures as numbers; else complain as at first."""
    try:
        plain = msgspec.json.decode(data)
        kind = KINDS.get(plain["kind"])
        rewrite = None if kind is None else _from_text(kind)
    except (TypeError, ValueError, LookupError, RecursionError):
        raise DecodeError(_sentence(strict)) from strict
    if kind is None or rewrite is None:
        raise DecodeError(_sentence(strict)) from strict
    try:
        return msgspec.convert(rewrite(plain), kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise DecodeError(_sentence(error)) from error


def _check_image(transformation: AnyTransformation) -> None:
    """Images name epochs and ids by numbers without bounds of their own; Avro's have 64 bits."""
    image = getattr(transformation, "image", None)
    if image is not None:
        _check_numbers(msgspec.to_builtins(image), "image")


def _check_numbers(value: Any, path: str) -> None:  # noqa: ANN401 - plain data
    match value:
        case int() if not MINIMUM <= value <= MAXIMUM:
            raise DecodeError(f"{path}: expected a number of 64 bits.")
        case dict():
            for name, item in value.items():
                _check_numbers(item, f"{path}.{name}")
        case list() | tuple():
            for index, item in enumerate(value):
                _check_numbers(item, f"{path}[{index}]")
        case _:
            pass


@cache
def _from_text(kind: type) -> Rewrite | None:
    return rewriting(kind, {Token: _token_number, Decimal: _decimal_text})


@cache
def _to_text(kind: type) -> Rewrite | None:
    return rewriting(kind, {Token: str})


def _token_number(value: object) -> object:
    return int(value) if isinstance(value, str) and _number.fullmatch(value) else value


def _decimal_text(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return str(value) if abs(value) < 10**_DIGITS_MAX else value


def _sentence(error: msgspec.ValidationError) -> str:
    """The complaint with the field's name in front: "tokens[0]: expected `int`, got `str`."."""
    before, at, place = str(error).rpartition(" - at ")
    complaint, field = (before, place) if at else (place, "")
    field = field.replace("`", "").replace("$.", "").replace("$", "")
    if not field:
        return f"{complaint}."
    return f"{field}: {complaint[0].lower()}{complaint[1:]}."


def _malformed(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply."
    return f"The text is not valid JSON: {error}."
