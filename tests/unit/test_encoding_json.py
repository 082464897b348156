"""JSON as people and browsers write and read it."""

from __future__ import annotations

import json

import msgspec
import pytest

from encoding.errors import DecodeError
from encoding.json import (
    decode_transformation,
    entry_json,
    rejection_json,
    result_json,
    transformation_json,
)
from metadata.directory import NodeId
from metadata.image import image_of
from metadata.locks import SequenceId
from metadata.plans import Step
from metadata.tokens import MAXIMUM, MINIMUM, Range, Token
from tests.golden.history import history
from transformations.initialize import ForceSnapshot, Initialize
from transformations.join import MidJoin, PrepareJoin
from transformations.kinds import KINDS
from transformations.outcome import Reason, Rejected, Result

HISTORY = history()
PROPOSED = [sealed.entry.transformation for sealed in HISTORY.entries]
FIGURES = {"rows": 2, "xor": "5", "sum": "7"}
RECEIPT = {
    "left": "1",
    "right": "2",
    "target": 1,
    "sources": [{"node": 2, "epoch": 3}],
    "source": FIGURES,
    "target_rows": FIGURES,
}


def text(kind, **fields):
    return json.dumps({"kind": kind, **fields}).encode()


def join(**fields):
    return text("PrepareJoin", **{"node": 1, "tokens": [1], **fields})


def image_with(**changes):
    plain = transformation_json(ForceSnapshot(image=image_of(HISTORY.metadata)))
    plain["image"].update(changes)
    return json.dumps(plain).encode()


@pytest.mark.parametrize("proposed", PROPOSED, ids=lambda item: type(item).__name__)
def test_comes_back_as_it_was(proposed):
    plain = transformation_json(proposed)

    assert plain["kind"] in KINDS
    assert decode_transformation(json.dumps(plain).encode()) == proposed


@pytest.mark.parametrize("proposed", PROPOSED, ids=lambda item: type(item).__name__)
def test_the_form_with_numbers_is_understood_too(proposed):
    """What the types give by themselves, tokens as numbers."""
    assert decode_transformation(msgspec.json.encode(proposed)) == proposed


def test_tokens_are_text_wherever_they_stand():
    """No number that a browser would round leaves the house."""
    image = image_of(HISTORY.metadata)
    outermost = (Token(MINIMUM), Token(MAXIMUM))
    for proposed in [
        *PROPOSED,
        ForceSnapshot(image=image),
        PrepareJoin(node=NodeId(1), tokens=outermost),
    ]:
        assert largest_number(transformation_json(proposed)) < 2**53

    assert transformation_json(PrepareJoin(node=NodeId(1), tokens=outermost))["tokens"] == [
        "-9223372036854775808",
        "9223372036854775807",
    ]


def largest_number(plain):
    match plain:
        case bool():
            return 0
        case int():
            return abs(plain)
        case dict():
            return max(map(largest_number, plain.values()), default=0)
        case list():
            return max(map(largest_number, plain), default=0)
        case _:
            return 0


def test_an_image_keeps_its_tokens():
    image = image_of(HISTORY.metadata)
    founding = Initialize(name="adopted", image=image)

    plain = transformation_json(founding)

    assert plain["image"]["ring"][0]["tokens"] == ["-2500", "2500"]
    assert plain["image"]["sequences"][0]["plans"][0]["splits"] == ["600"]
    assert decode_transformation(json.dumps(plain).encode()) == founding


def test_figures_may_be_numbers_of_any_size():
    numbers = {"rows": 2, "xor": 2**64 + 1, "sum": -(10**30)}
    proposed = text("MidJoin", sequence=9, receipts=[{**RECEIPT, "source": numbers}])

    found = decode_transformation(proposed)

    assert isinstance(found, MidJoin)
    assert found.receipts[0].source.xor == str(2**64 + 1)
    assert found.receipts[0].source.sum == str(-(10**30))


def test_raw_parts_of_a_larger_document_are_taken_as_they_are():
    assert decode_transformation(msgspec.Raw(join(tokens=["5"]))) == PrepareJoin(
        node=NodeId(1), tokens=(Token(5),)
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "The text is not valid JSON: Input data was truncated."),
        (b"\xff\xfe", "The text is not valid JSON"),
        (b'{"kind": "SetExtension", "name": "a", "value": "\xff"}', "not valid JSON: 'utf-8'"),
        (b'{"kind": "SetExtension", "name": "a", "value": "\\ud800"}', "not valid JSON"),
        (b"[]", "Expected `object`, got `array`."),
        (b"null", "Expected `object`, got `null`."),
        (b"{}", "Object missing required field `kind`."),
        (b'{"kind": "PrepareJoin", "node": 1, "tokens": [1]} x', "not valid JSON"),
        (b'{"a": ' + b"[" * 9999, "The JSON is nested too deeply."),
        (text("Frobnicate"), "kind: invalid value 'Frobnicate'."),
        (text("x" * 10_000), "kind: invalid value 'xxxx"),
        (text(7), "kind: expected `str`."),
        (text(["PrepareJoin"]), "kind: expected `str`."),
        (text("PrepareJoin", node=1), "Object missing required field `tokens`."),
        (join(colour="red"), "Object contains unknown field `colour`."),
        (join(node="1"), "node: expected `int`, got `str`."),
        (join(node=True), "node: expected `int`, got `bool`."),
        (join(node=0), "node: expected `int` >= 1."),
        (join(node=2**63), "node: expected `int` <= 9007199254740992."),
        (join(node=10**400), "node: expected `int` <= 9007199254740992."),
        (join(tokens=[]), "tokens: expected `array` of length >= 1."),
        (join(tokens=list(range(10_000))), "tokens: expected `array` of length <= 1024."),
        (join(tokens=[str(n) for n in range(10_000)]), "tokens: expected `array` of length"),
        (join(tokens="5"), "tokens: expected `array`, got `str`."),
        (join(tokens=["x"]), "tokens[0]: expected `int`, got `str`."),
        (join(tokens=[0, "5\n"]), "tokens[1]: expected `int`, got `str`."),
        (join(tokens=["٣"]), "tokens[0]: expected `int`, got `str`."),
        (join(tokens=[1.5]), "tokens[0]: expected `int`, got `float`."),
        (join(tokens=[2**63]), "tokens[0]: expected `int` <= 9223372036854775807."),
        (join(tokens=[str(2**63)]), "tokens[0]: expected `int` <= 9223372036854775807."),
        (join(tokens=[-(2**63) - 1]), "tokens[0]: expected `int` >= -9223372036854775808."),
        (join(tokens=[10**400]), "tokens[0]: expected `int` <= 9223372036854775807."),
        (join(tokens=["1" + "0" * 400]), "tokens[0]: expected `int`, got `str`."),
        (text("DropKeyspace", name=""), "name: expected `str` matching regex"),
        (text("DropKeyspace", name="shop\n"), "name: expected `str` matching regex"),
        (text("DropKeyspace", name="a b"), "name: expected `str` matching regex"),
        (text("DropKeyspace", name="ä"), "name: expected `str` matching regex"),
        (text("DropKeyspace", name="x" * 49), "name: expected `str` matching regex"),
        (text("AlterTopology", locations={"x": {}}), "key in locations: expected `int`"),
        (
            text("CreateKeyspace", name="a", replication={"strategy": "magic"}),
            "replication.strategy: invalid value 'magic'.",
        ),
        (
            text("MidJoin", sequence=1, receipts=[{**RECEIPT, "left": "y"}]),
            "receipts[0].left: expected `int`, got `str`.",
        ),
        (
            text("MidJoin", sequence=1, receipts=[{**RECEIPT, "source": {**FIGURES, "xor": 1.5}}]),
            "receipts[0].source.xor: expected `str`, got `float`.",
        ),
        (
            text("MidJoin", sequence=1, receipts=[{**RECEIPT, "source": {**FIGURES, "xor": True}}]),
            "receipts[0].source.xor: expected `str`, got `bool`.",
        ),
        (
            text(
                "MidJoin", sequence=1, receipts=[{**RECEIPT, "source": {**FIGURES, "sum": 10**70}}]
            ),
            "receipts[0].source.sum: expected `str`, got `int`.",
        ),
        (image_with(epoch=10**30), "image.epoch: expected a number of 64 bits."),
        (image_with(next_node=2**63), "image.next_node: expected a number of 64 bits."),
        (image_with(ring=[{"node": 2**70, "tokens": []}]), "image.ring[0].node: expected a number"),
        (image_with(ring=5), "image.ring: expected `array`, got `int`."),
        (image_with(ring=[5]), "image.ring[0]: expected `object`, got `int`."),
    ],
)
def test_a_complaint_is_a_sentence_that_names_the_field(data, complaint):
    with pytest.raises(DecodeError) as caught:
        decode_transformation(data)

    assert str(caught.value).startswith(complaint) or complaint in str(caught.value)
    assert str(caught.value).endswith(".")


def test_an_entry_has_the_fields_of_its_payload_and_its_hashes():
    sealed = HISTORY.entries[0]

    plain = entry_json(sealed.entry, previous_hash=sealed.previous_hash, entry_hash=sealed.hash)

    assert json.loads(json.dumps(plain)) == plain
    assert plain == {
        "cluster": "00000000-0000-4000-8000-000000000001",
        "epoch": 1,
        "entry_id": "0c0ffee0-0000-4000-8000-000000000001",
        "kind": "Initialize",
        "transformation": {
            "kind": "Initialize",
            "name": "corner shop",
            "partitioner": "murmur3",
            "cluster": "00000000-0000-4000-8000-000000000001",
        },
        "result": {"cluster": "00000000-0000-4000-8000-000000000001"},
        "digest": sealed.entry.digest.hex(),
        "actor": "ada",
        "reason": "we open on Monday",
        "committed_at": 1_750_000_001_000_000,
        "committed_by": "cms1",
        "previous_hash": "00" * 32,
        "hash": sealed.hash.hex(),
    }


def test_a_result_says_only_what_there_is():
    assert result_json(Result()) == {}
    assert result_json(Result(node=3, warnings=("careful",))) == {
        "node": 3,
        "warnings": ["careful"],
    }


def test_a_rejection_says_what_is_in_the_way():
    rejected = Rejected(
        Reason.RANGES_LOCKED,
        "sequence 7 holds them",
        "wait",
        sequence=SequenceId(7),
        step=Step.MID,
        ranges=(Range(MINIMUM, Token(5)),),
    )

    assert rejection_json(rejected) == {
        "code": "ranges_locked",
        "detail": "sequence 7 holds them",
        "remedy": "wait",
        "sequence": 7,
        "step": "mid",
        "ranges": [{"left": "-9223372036854775808", "right": "5"}],
    }


def test_a_rejection_leaves_out_what_there_is_not():
    assert rejection_json(Rejected(Reason.UNKNOWN_TABLE, "no table a.b")) == {
        "code": "unknown_table",
        "detail": "no table a.b",
    }
