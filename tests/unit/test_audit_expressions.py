"""Expressions reach the metadata and nothing else, and say where they are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.expressions import TEXT_CHARACTERS_MAX, parse
from audit.grammar import ExpressionError
from metadata.cluster import NOTHING_YET
from tests.builders import joined_cluster

METADATA = joined_cluster(4, spare=1)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("epoch > 3", True),
        ("len(nodes) == 5", True),
        ('count(n for n in nodes if n.state == "joined") == 4', True),
        ('all(n.datacenter == "dc1" for n in nodes)', True),
        ('any(n.rack == "r9" for n in nodes)', False),
        ("not any([n.id > 4 for n in nodes])", False),
        ("node(1).tokens == ['100']", True),
        ("node(99).state is None", True),
        ("None is not node(99).state", False),
        ("(epoch > 0) is True is not False", True),
        ('node(99).state == "left"', False),
        ("node(99).id > 3", False),
        ('keyspace("shop").replication.factor == 3', True),
        ('"t1" in [t.name for t in tables]', True),
        ('1 in readers("shop", 42) and 2 in writers("shop", "42")', True),
        ('readers("nowhere", 42) == []', True),
        ('extensions["a"] is None and extension("a") is None', True),
        ('extensions["a"] == "b"', False),
        ("nodes[0].id == 1 and nodes[-1].id == 5 and nodes[9] is None", True),
        ("max([n.id for n in nodes]) - min([n.id for n in nodes]) == 2 * 2", True),
        ("7 // 2 == 3 and 7 % 2 == 1 and -1 < 0 + 0", True),
        ("len(sequences) == len(locks) == len(sessions) == len(cms) == 0", True),
        ("1 < 2 < 3 and not 3 < 2 < 1", True),
        ("  len(nodes)\n > 1 ", True),
        ("'a' not in [1] or False", True),
    ],
)
def test_a_question_is_answered(text, answer):
    assert parse(text).holds(METADATA) is answer


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", 1, "invalid syntax"),
        ("1 +", 4, "invalid syntax"),
        ("open('x') == 1", 1, "there is no open"),
        ("__import__('os') == 1", 1, "there is no __import__"),
        ("len(nodes) == metadata", 15, "there is no metadata"),
        ("nodes.__class__ == 1", 1, "not part of the language"),
        ("nodes[0].__class__ == 1", 1, "not part of the language"),
        ("(lambda: 1)() == 1", 1, "not part of the language"),
        ("nodes[0:2] == []", 1, "not part of the language"),
        ("2 ** 999999999 > 1", 1, "not part of the language"),
        ("len(nodes=1) == 1", 1, "takes plain arguments"),
        ("len() == 1", 1, "len takes one argument"),
        ("1 == len(nodes, cms)", 6, "len takes one argument"),
        ('readers("shop") == []', 1, "readers takes two arguments"),
        ("f'{nodes}' == 1", 1, "not part of the language"),
        ("1.5 < 2", 1, "only texts, whole numbers"),
        ("b'x' == 1", 1, "only texts, whole numbers"),
        ("1000000000000000000000 > 1", 1, "only texts, whole numbers"),
        ("any(a == b for a in nodes for b in nodes)", 4, "not part of the language"),
        ("any(a == b for a, b in nodes)", 4, "a loop has one plain name"),
        ("nodes if epoch else cms", 1, "not part of the language"),
        ("(epoch := 1) == 1", 2, "not part of the language"),
        ("len.x == 1", 1, "there is no len"),
        ("epoch is 1000", 10, "`is` is for None, True and False; compare by =="),
        ("'a' is not epoch", 12, "`is` is for None, True and False; compare by !="),
        ("None is epoch is 'a'", 18, "`is` is for None, True and False"),
        ("'é' == nodez", 8, "there is no nodez"),
        ("not " * 60 + "True", 165, "too deeply nested"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_its_column(text, column, said):
    with pytest.raises(ExpressionError, match=said) as caught:
        parse(text)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("len(nodes)", "neither true nor false"),
        ("nodes and True", "neither true nor false"),
        ("any(nodes)", "neither true nor false"),
        ("any(n.stat == 1 for n in nodes)", "there is no 'stat' here; there is id, host_id"),
        ("nodes < 3", "not supported"),
        ("'a' + 'b' == 'ab'", "is not a number"),
        ("'a' * 1000000000 == ''", "is not a number"),
        ("1 // 0 == 1", "zero"),
        ("len(1) == 1", "has no len"),
        ("min([]) == 1", "empty"),
        ('readers("shop", "x") == []', "invalid literal"),
        (f'readers("shop", {2**63}) == []', "64 bits"),
        ("nodes['a'] == 1", "is not a number"),
        ("node([1]) == 1", "unhashable"),
    ],
)
def test_what_cannot_be_worked_out_is_refused_in_words(text, said):
    expression = parse(text)

    with pytest.raises(ExpressionError, match=said):
        expression.holds(METADATA)


def test_work_is_bounded():
    many = "[" + ",".join(["1"] * 150) + "]"
    nested = parse(f"all(all(all(True for a in {many}) for b in {many}) for c in {many})")

    with pytest.raises(ExpressionError, match="takes too long"):
        nested.holds(METADATA)


def test_the_text_is_bounded():
    with pytest.raises(ExpressionError, match="more than"):
        parse("1" * (TEXT_CHARACTERS_MAX + 1))


def test_it_is_known_what_an_expression_looks_at():
    found = parse('len(nodes) > 1 and 1 in readers("shop", 1)')

    assert found.components == {"directory", "ring", "schema", "placements"}
    assert not found.looks_at_epoch
    assert parse("epoch > 1 and len(cms) > 0").looks_at_epoch


@given(st.text(alphabet="abn.dels[](){}=<>!'\"0123456789 ,:_*+-/%\\\n\x00é", max_size=60))
def test_whatever_is_written_is_answered_or_refused(text):
    try:
        expression = parse(text)
        answers = {expression.holds(metadata) for metadata in (NOTHING_YET, METADATA)}
    except ExpressionError:
        return
    assert answers <= {True, False}
