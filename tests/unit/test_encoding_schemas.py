"""Schemas follow the types, are added and never edited, and suffice to read what they wrote."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest

from encoding import avro, registry
from encoding.derivation import Derivation, schema_names, schema_of
from encoding.registry import documents, fingerprint_of, newest, released
from encoding.schemas.__main__ import main, released_source, write_versions
from encoding.schemas.released import RELEASED
from metadata.columns import ColumnType
from tests.golden.history import history
from tests.golden.recordings import read_lines, read_log

FOLDER = Path(registry.__file__).parent / "schemas"
EMPTY_CRC = 0xC15D213AA4D7A795


def crc_64_avro(text):
    """As the Avro specification writes it down."""
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (EMPTY_CRC & -(value & 1))
        table.append(value)
    crc = EMPTY_CRC
    for byte in text:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc


@pytest.mark.parametrize("name", schema_names())
def test_the_newest_version_is_todays_type(name):
    """Where this fails a type has changed: run `python -m encoding.schemas`, commit the file."""
    assert newest(name).document() == schema_of(name)


@pytest.mark.parametrize("written", released(), ids=lambda written: written.file)
def test_a_released_version_is_never_edited(written):
    assert fingerprint_of(written.document()) == written.fingerprint


def test_every_file_is_listed_and_every_fingerprint_is_its_own():
    files = {path.name for path in FOLDER.glob("*.avsc")}

    assert files == {written.file for written in released()}
    assert len(documents()) == len(released())


def test_fingerprints_are_those_of_the_specification():
    """Little-endian CRC-64-AVRO of the parsing canonical form."""
    assert fingerprint_of({"type": "int"}).hex() == "8f5c393f1ad57572"
    assert crc_64_avro(b'"int"').to_bytes(8, "little").hex() == "8f5c393f1ad57572"
    for written in released():
        canonical = fastavro.schema.to_parsing_canonical_form(written.document())
        assert crc_64_avro(canonical.encode()).to_bytes(8, "little") == written.fingerprint


@pytest.mark.parametrize("sealed", read_log("v1"), ids=lambda sealed: f"{sealed.epoch}")
def test_one_file_is_enough_to_read_an_entry(sealed):
    """What a program in another language does: no code of ours beyond the choice of the file."""
    fingerprint = sealed.payload[2:10].hex()
    files = [name for name, versions in RELEASED.items() if fingerprint in versions]
    schema = json.loads((FOLDER / f"{files[0]}.1.avsc").read_text())

    entry: Any = fastavro.schemaless_reader(io.BytesIO(sealed.payload[10:]), schema, None)

    line = read_lines("v1")[sealed.epoch - 1]
    assert entry["cluster"] == line["cluster"]
    assert entry["entry_id"].hex() == line["entry_id"].replace("-", "")
    assert entry["committed_at"] == line["committed_at"]
    assert entry["digest"].hex() == line["digest"]
    names = {field["name"]: field["type"] for field in schema["fields"]}
    assert names["transformation"]["name"] == line["kind"]


def test_every_item_of_an_array_or_map_has_a_byte_that_is_looked_at():
    """Else a few bytes could claim an item count that fills all memory."""
    for name in schema_names():
        for item in items_in(schema_of(name)):
            assert looked_at(item), (name, item)


def looked_at(schema):
    match schema:
        case "null" | {"type": "fixed"}:
            return False
        case {"type": "record", "fields": fields}:
            return any(looked_at(field["type"]) for field in fields)
        case _:
            return True  # A reference is to a record that was looked at where it was defined.


def items_in(schema):
    if isinstance(schema, list):
        for branch in schema:
            yield from items_in(branch)
    elif isinstance(schema, dict):
        yield from (schema[name] for name in ("items", "values") if name in schema)
        for value in schema.values():
            yield from items_in(value)


def test_two_types_of_one_name_are_noticed():
    derived = Derivation()
    derived.of(type_info("Column", ("name", str)))

    with pytest.raises(AssertionError, match="two types are named Column"):
        derived.of(type_info("Column", ("type", ColumnType)))


def type_info(name, *fields):
    return msgspec.inspect.type_info(msgspec.defstruct(name, fields))


def record(*fields):
    return {
        "type": "record",
        "name": "Entry",
        "fields": [{"name": name, "type": "long"} for name in fields],
    }


def test_a_changed_type_gets_a_version_of_its_own(tmp_path):
    first = write_versions(tmp_path, {}, {"Register": record("node")})
    before = (tmp_path / "Register.1.avsc").read_bytes()

    second = write_versions(tmp_path, first, {"Register": record("node", "rack")})

    assert len(second["Register"]) == 2
    assert second["Register"][:1] == first["Register"]
    assert (tmp_path / "Register.1.avsc").read_bytes() == before
    assert json.loads((tmp_path / "Register.2.avsc").read_text()) == record("node", "rack")


def test_an_unchanged_type_gets_none(tmp_path, capsys):
    first = write_versions(tmp_path, {}, {"Register": record("node")})
    capsys.readouterr()

    assert write_versions(tmp_path, first, {"Register": record("node")}) == first
    assert capsys.readouterr().out == ""


def test_a_type_may_not_return_to_an_older_version(tmp_path):
    """Two versions with one fingerprint could not be told apart."""
    first = write_versions(tmp_path, {}, {"Register": record("node")})
    second = write_versions(tmp_path, first, {"Register": record("rack")})

    with pytest.raises(SystemExit, match="as it was before"):
        write_versions(tmp_path, second, {"Register": record("node")})


def test_the_list_of_fingerprints_is_as_the_command_writes_it():
    assert (FOLDER / "released.py").read_text() == released_source(RELEASED)
    assert '"A": ("1", "2"),' in released_source({"A": ("1", "2")})


def test_messages_begin_with_marker_and_fingerprint():
    for sealed in history().entries:
        assert sealed.payload.startswith(avro.header(newest(sealed.kind)))
        assert sealed.payload[:2] == b"\xc3\x01"


def test_the_command_writes_every_schema_and_the_list(tmp_path, capsys):
    """Into an empty folder; beside the files that are there it would write nothing."""
    main(tmp_path)

    assert len(capsys.readouterr().out.splitlines()) == len(schema_names())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (FOLDER / path.name).read_bytes()
