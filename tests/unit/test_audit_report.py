"""A report in one file: what is said on top, and what of long histories is left out."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser

import msgspec
import pytest

from audit.errors import ArchiveError
from audit.findings import Finding, Grade
from audit.pictures import LEFT, RIGHT, WIDTH, Axis, areas, largest, timeline
from audit.replay import audited
from audit.report import AuditReport, Examined, Made, Trust, report_on_live
from audit.report_chronicle import Chronicler, Sample, Thinned, shares
from audit.report_html import html_of
from log.replay import NOTHING_APPLIED, replayed
from metadata.epoch import Epoch
from metadata.plans import Step
from tests.golden.history import history as golden
from tests.histories import kept

MADE = Made("9.9.9", "2026-01-02 03:04 UTC")
VOID = {"meta", "rect", "line", "path"}


@cache
def entries():
    return golden().entries


@cache
def live_report():
    return report_on_live(kept(entries()), "http://cms", MADE)


def test_names_and_roles_are_told_for_what_they_are():
    """As claimed, and as needed: an entry proves neither who sent it nor under which role."""
    page = html_of(live_report())

    assert "Who, by their own account" in page
    assert "Role it takes" in page
    assert "the log does not record which role or token was used" in page


def with_source(report, **changes):
    source = msgspec.structs.replace(report.sources[0], **changes)
    return msgspec.structs.replace(report, sources=(source,))


class Balanced(HTMLParser):
    """Every tag is closed in its turn."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "href", "srcset", "action"), (tag, name, value)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag


def checked(report):
    page = html_of(report)
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert not parser.seen & {"script", "link", "img", "iframe", "object", "embed"}
    assert not re.search(r"url\(|@import|https?://(?!cms)", page)
    return page


def test_it_needs_nothing_from_elsewhere_and_names_what_happened():
    page = checked(live_report())

    assert "Audit of corner shop" in page
    assert "default-src 'none'" in page
    for words in (
        "join of node 4",
        "replace of node 5 for 3",
        "PrepareMove × 1",
        "the disk is gone",
    ):
        assert words in page
    assert "All 6 are shown" in page
    assert "ringlog audit export backup/" in page, "a live log is exported before it is verified"
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


@pytest.mark.parametrize(
    ("changes", "trust", "mark"),
    [
        ({}, Trust.UNANCHORED, "○ Consistent, not anchored"),
        ({"is_anchored": True}, Trust.ANCHORED, "✓ Verified and anchored"),
        ({"holds": False, "said": "epoch 7: changed"}, Trust.TAMPERED, "✗ Tampered or damaged"),
    ],
)
def test_what_verifying_came_to_is_on_top_in_words_and_colour(changes, trust, mark):
    report = with_source(live_report(), **changes)
    page = checked(report)

    top = page[page.index("<header>") :][:900]
    assert report.trust is trust
    assert report.holds == (trust is not Trust.TAMPERED)
    assert mark in top
    assert f'class="verdict {trust.value}"' in top
    assert report.headline in top
    assert changes.get("said", "") in top


def test_a_history_that_breaks_a_rule_does_not_hold():
    report = live_report()
    finding = Finding(epoch=Epoch(9), rule="locks", grade=Grade.ERROR, explanation="two hold <it>")
    replayed = msgspec.structs.replace(report.contents.replay, findings=(finding,), errors=1)
    broken = msgspec.structs.replace(
        report, contents=msgspec.structs.replace(report.contents, replay=replayed)
    )

    page = checked(broken)

    assert (broken.trust, broken.holds) == (Trust.BROKEN, False)
    assert "✗ Does not hold" in page
    assert "two hold &lt;it&gt;" in page


def test_where_nothing_can_be_read_it_says_that_and_no_more():
    source = Examined(
        name="backup", holds=False, is_anchored=False, said="manifest: it is missing."
    )
    page = checked(AuditReport(made=MADE, sources=(source,), contents=None))

    assert "✗ Tampered or damaged" in page
    assert "No entry could be replayed" in page
    assert "Who did what" not in page


def test_nothing_that_came_from_a_history_is_taken_for_markup():
    evil = "<script>alert(1)</script>\"'&"
    report = live_report()
    contents = msgspec.structs.replace(
        report.contents,
        name=evil,
        chronicle=msgspec.structs.replace(
            report.contents.chronicle,
            kinds={evil: 1},
            sequences=tuple(
                msgspec.structs.replace(item, actor=evil, reason=evil)
                for item in report.contents.chronicle.sequences
            ),
        ),
    )
    page = checked(
        msgspec.structs.replace(
            with_source(report, name=evil, said=evil), contents=contents, keys=(evil,)
        )
    )

    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_an_empty_log_has_a_report_too():
    assert "No errors and no warnings" in checked(report_on_live(kept([]), "http://cms", MADE))


def test_the_chronicle_knows_every_sequence_and_change_of_owners():
    chronicle = live_report().contents.chronicle

    outcomes = {item.id: item.outcome for item in chronicle.sequences}
    assert outcomes == {
        **dict.fromkeys((22, 27, 32, 37), "finished"),
        42: "cancelled",
        63: "in progress",
    }
    assert sum(chronicle.kinds.values()) == 64
    assert [item.step for item in chronicle.sequences[0].steps] == [
        *(Step.PREPARE, Step.START, Step.MID, Step.FINISH, Step.RETIRE)
    ]
    versions = [applied.metadata for applied in replayed(entries())]
    for sample in chronicle.samples:
        assert sample.shares == shares(versions[sample.epoch - 1].placements)
        assert sum(sample.shares.values()) == pytest.approx(1.0 if sample.shares else 0.0)


def test_a_history_that_begins_later_knows_what_was_under_way():
    whole, late = Chronicler(), Chronicler()
    onto = NOTHING_APPLIED
    for sealed in entries():
        following = whole.apply(sealed, onto)
        if sealed.epoch > 23:
            late.apply(sealed, onto)
            late.apply(sealed, onto)
        onto = following

    first, first_late = whole.chronicle().sequences[0], late.chronicle().sequences[0]

    assert [item.epoch for item in first_late.steps] == [item.epoch for item in first.steps]
    assert sum(late.chronicle().kinds.values()) == 64 - 23, "a second look counts once"


@pytest.mark.parametrize("total", [0, 1, 9, 10, 11, 1000])
def test_long_histories_are_thinned_evenly(total):
    thinned: Thinned[int] = Thinned(10)
    made = []

    def make():
        made.append(thinned.total)
        return thinned.total

    for _ in range(total):
        thinned.take(make)

    assert thinned.kept == list(range(0, total, thinned.stride))
    assert len(thinned.kept) <= 10
    assert thinned.total == total
    assert len(made) <= 10 + 10 * max(1, total.bit_length())


def test_pictures_stay_inside_their_frame():
    chronicle = live_report().contents.chronicle
    for axis in (Axis(0, 64), Axis(0, 10_000_000)):
        drawn = timeline(chronicle.sequences, axis)
        for x, width in re.findall(
            r'<rect class="[^"]*" x="([\d.]+)" y="\d+" width="([\d.]+)"', drawn
        ):
            assert float(x) >= LEFT - 1
            assert float(x) + float(width) <= WIDTH - RIGHT + 6
        assert 1 < len(axis.ticks()) <= 8


def test_more_nodes_than_colours_share_a_band():
    samples = [Sample(Epoch(1), 40, dict.fromkeys(range(1, 41), 1 / 40))]

    shown = largest(samples)

    assert shown == list(range(1, 12))
    assert 'class="band rest"' in areas(samples, Axis(0, 9), shown)


def test_a_replay_that_takes_notes_finds_the_same():
    history = kept(entries())

    assert live_report().contents.replay == audited(history)


def test_a_sentence_about_an_archive_ends_once():
    assert str(ArchiveError("a", "it is so.", epoch=Epoch(7))) == "a, epoch 7: it is so."
