"""Notes, checkpoints and keys are those of C2SP and of Go's note package."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.checkpoints import Checkpoint, parse_checkpoint, sign
from audit.keys import (
    Algorithm,
    KeyFormatError,
    PrivateKey,
    PublicKey,
    generate,
    load_private,
    load_public,
    parse_private,
    parse_public,
    save,
)
from audit.notes import SIGNATURES_MAX, NoteError, SignedNote, parse_note

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/tlog/vectors.json").read_text())

# The example of Go's note package.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb"
    "6KE6RyyBwJnAM=\n"
)
KEY = parse_private(VECTORS["private_key"])
CHECKPOINT = Checkpoint("example.com/log", 70_000, bytes.fromhex(VECTORS["trees"][-1]["root"]))


def test_a_published_note_is_verified():
    key = parse_public(PETER)

    note = parse_note(PETERS_NOTE.encode())

    assert note.verified_by([key]) == (key,)
    assert note.text.startswith("If you think cryptography")
    assert note.encode() == PETERS_NOTE.encode()


def test_what_is_signed_here_is_what_go_signs():
    assert KEY.public.text == VECTORS["public_key"]
    assert KEY.text == VECTORS["private_key"]

    signed = sign(CHECKPOINT, [KEY])

    assert signed.encode().decode() == VECTORS["checkpoint"]
    assert parse_checkpoint(signed.encode()) == signed


def test_a_changed_byte_anywhere_is_noticed():
    data = sign(CHECKPOINT, [KEY]).encode()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1

        try:
            believed = parse_checkpoint(bytes(changed)).verified_by([KEY.public])
        except NoteError:
            continue
        assert not believed, place


def test_there_is_one_way_to_write_a_signature():
    """The last letter has bits to spare, which other readers pass over."""
    data = sign(CHECKPOINT, [KEY]).encode()
    assert data.endswith(b"hAs=\n")

    with pytest.raises(NoteError, match="a signature line is malformed"):
        parse_checkpoint(data.replace(b"hAs=\n", b"hAt=\n"))


def test_keys_are_rotated_by_signing_with_both():
    """Whoever knows one of them believes; nobody else does."""
    new = generate("example.com/log")
    signed = sign(CHECKPOINT, [KEY]).signed(new)

    assert signed.verified_by([KEY.public]) == (KEY.public,)
    assert signed.verified_by([new.public]) == (new.public,)
    assert signed.verified_by([generate("example.com/log").public]) == ()
    assert signed.signed(new) == signed


def test_a_witness_signs_the_time_too():
    witness = generate("witness.example/w1", Algorithm.COSIGNATURE)
    signed = sign(CHECKPOINT, [KEY]).signed(witness, at_s=1_679_315_147)

    assert set(signed.verified_by([KEY.public, witness.public])) == {KEY.public, witness.public}
    assert parse_public(witness.public.text) == witness.public
    later = signed.note.signatures[1].data.replace(
        (1_679_315_147).to_bytes(8, "big"), (1_679_315_148).to_bytes(8, "big")
    )
    with pytest.raises(NoteError, match=r"the signature of witness\.example/w1 is false"):
        SignedNote(
            signed.note.text,
            (type(signed.note.signatures[1])(witness.name, witness.public.id, later),),
        ).verified_by([witness.public])


def test_a_cosignature_is_made_as_c2sp_writes_it_down():
    """By hand, from the text of tlog-cosignature, over the checkpoint of its example."""
    body = b"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    seed = bytes(range(32))
    theirs = Ed25519PrivateKey.from_private_bytes(seed)
    public = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
    assert theirs.public_key().public_bytes_raw() == public
    key_id = sha256(b"witness.example.com/w1\n\x04" + public).digest()[:4]
    signature = theirs.sign(b"cosignature/v1\ntime 1679315147\n" + body)
    timestamp = b"\x00\x00\x00\x00\x64\x18\x50\xcb"
    line = b64encode(key_id + timestamp + signature)
    assert line == (
        b"oAWfEQAAAABkGFDLBuRDazBLVac2NE+Y+IjbjQOcXLfF9CSDZVUIoS83rE1n"
        b"FZsVE8YiWV6Ngr7lV8H6bdoBQGP/l73euDMQ9k+bBQ=="
    )

    witness = PrivateKey("witness.example.com/w1", seed, Algorithm.COSIGNATURE)
    note = SignedNote(body.decode()).signed(witness, at_s=1_679_315_147)

    expected = body + b"\n" + "— witness.example.com/w1 ".encode() + line + b"\n"
    assert note.encode() == expected
    vkey = f"witness.example.com/w1+{key_id.hex()}+{b64encode(bytes([4]) + public).decode()}"
    assert parse_note(expected).verified_by([parse_public(vkey)]) == (witness.public,)


def test_a_published_cosignature_is_read():
    """The key of C2SP's example is not published; its form is."""
    text = (
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
        "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhc"
        "yv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
        "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX"
        "3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
    )

    found = parse_checkpoint(text.encode())

    assert found.checkpoint.size == 20_852_163
    assert found.encode().decode() == text
    assert int.from_bytes(found.note.signatures[1].data[:8], "big") == 1_679_315_147


def test_the_same_name_with_another_key_is_not_believed():
    other = generate(KEY.name)

    assert sign(CHECKPOINT, [other]).verified_by([KEY.public]) == ()


def test_a_key_that_took_over_the_id_is_found_false():
    """An id is short; the signature is what counts."""
    note = sign(CHECKPOINT, [generate(KEY.name)]).note
    stolen = type(note.signatures[0])(KEY.name, KEY.public.id, note.signatures[0].data)

    with pytest.raises(NoteError, match="is false"):
        SignedNote(note.text, (stolen,)).verified_by([KEY.public])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no signature\n",
        b"text\n\n",
        b"text\n\n\xe2\x80\x94 name\n",
        b"text\n\n\xe2\x80\x94 name AAAA\n",
        b"text\n\n\xe2\x80\x94 na+me AAAAAAAA\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAAA",
        b"te\x01xt\n\n\xe2\x80\x94 name AAAAAAAA\n",
        b"te\xfft\n\n\xe2\x80\x94 name AAAAAAAA\n",
        b"text\n\n" + b"\xe2\x80\x94 name AAAAAAAA\n" * (SIGNATURES_MAX + 1),
        b"x" * 1_000_001,
    ],
)
def test_what_is_no_note_is_refused(data):
    with pytest.raises(NoteError):
        parse_note(data)


@pytest.mark.parametrize(
    "text",
    [
        "origin\n5\n",
        "origin\n05\n{root}\n",
        "origin\n-5\n{root}\n",
        "origin\n5\nAAAA\n",
        "origin\n5\n{root}x\n",
        "\n5\n{root}\n",
        "origin\n5\n{root}\n\nextension\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text):
    root = CHECKPOINT.text.split("\n")[2]
    note = SignedNote(text.format(root=root)).signed(KEY)

    with pytest.raises(NoteError):
        parse_checkpoint(note.encode())


def test_extension_lines_are_signed_and_passed_over():
    note = SignedNote(CHECKPOINT.text + "more to come\n").signed(KEY)

    found = parse_checkpoint(note.encode())

    assert found.checkpoint == CHECKPOINT
    assert found.verified_by([KEY.public])


def test_a_private_key_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "log.key"
    key = generate("ringlog.example/log")
    save(key, path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert load_private(path) == key
    assert load_public(f"{path}.pub") == key.public == load_public(key.public.text)
    assert key.text not in repr(key)
    with pytest.raises(KeyFormatError, match="is there already"):
        save(generate("other"), path)
    path.chmod(0o644)
    with pytest.raises(KeyFormatError, match="run chmod 600"):
        load_private(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+00000000+AAAA",
        PETER.replace("c74f20a3", "c74f20a4"),
        PETER.replace("+AR", "+BR"),
        PETER[:-4],
        "na me+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    ],
)
def test_what_is_no_key_is_refused(text):
    with pytest.raises(KeyFormatError):
        parse_public(text)
    with pytest.raises(KeyFormatError):
        parse_private(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u00a0b"])
def test_names_that_no_line_can_hold_are_refused(name):
    with pytest.raises(KeyFormatError):
        generate(name)


def test_files_that_hold_no_key_are_refused(tmp_path):
    with pytest.raises(KeyFormatError, match="cannot be read"):
        load_public(str(tmp_path / "missing"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(KeyFormatError, match="cannot be read"):
        load_private(tmp_path / "bytes")
    with pytest.raises(KeyFormatError, match="cannot be written"):
        save(KEY, tmp_path / "no" / "folder")


def test_a_public_key_of_no_point_verifies_nothing():
    assert not PublicKey("name", b"\xff" * 32).verifies(bytes(64), b"text")
