"""Links between documents lead somewhere."""

import pytest

from tests.tidy.links import link_faults
from tests.tidy.source import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    assert link_faults(document) == []


@pytest.fixture
def guide(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Two words, `code`\n")
    (tmp_path / "code.py").write_text("")
    return tmp_path / "docs" / "guide.md"


@pytest.mark.parametrize(
    "target",
    [
        "missing.md",
        "../missing.py",
        "other.md#three-words",
        "#nowhere",
        "missing.md#two-words-code",
    ],
)
def test_finds_a_dead_link(guide, target):
    guide.write_text(f"# Guide\n\nSee [this]({target}).\n")

    assert len(link_faults(guide)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[this](other.md)",
        "[this](other.md#two-words-code)",
        "[this](../code.py)",
        '[this](../code.py "with a title")',
        "[this](#guide)",
        "[this](https://example.org/missing.md)",
        "![picture](../code.py)",
        "`[this](missing.md)`",
        "```\n[this](missing.md)\n```",
    ],
)
def test_lets_a_link_pass(guide, text):
    guide.write_text(f"# Guide\n\n{text}\n")

    assert link_faults(guide) == []
