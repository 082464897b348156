"""Tokens and what each role may commit."""

from __future__ import annotations

import json

import pytest

from metadata.directory import Directory, Location, Node, NodeId
from metadata.locks import SequenceId
from metadata.tokens import Token
from services.cms.rights import NEEDED, Committer, check_may_commit, committer
from services.http.hosts import is_meant
from services.http.problems import ProblemError
from services.http.roles import Role, TokensError, check_open, load_tokens
from transformations.cms import AdvanceCmsReconfiguration
from transformations.directory import Register, Startup, Unregister
from transformations.join import PrepareJoin, StartJoin
from transformations.kinds import KINDS
from transformations.leave import PrepareLeave
from transformations.move import PrepareMove
from transformations.replace import PrepareReplace


def test_every_kind_needs_a_role_that_may_commit():
    assert set(NEEDED) == set(KINDS.values())
    assert Role.VIEWER not in NEEDED.values()


def test_only_an_admin_may_do_what_cannot_be_undone():
    admin = {kind.__name__ for kind, role in NEEDED.items() if role is Role.ADMIN}
    unsafe = {name for name in KINDS if name.startswith("Unsafe") or "Cms" in name}
    # To advance a reconfiguration is a step like others, which a driver takes.
    assert admin == (unsafe | {"ForceSnapshot", "Assassinate"}) - {"AdvanceCmsReconfiguration"}


def test_tokens_come_from_a_file(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"viewer": "see", "admin": "rule"}))
    tokens = load_tokens(path)
    assert tokens.role_of("Bearer see") is Role.VIEWER
    assert tokens.role_of("bearer rule") is Role.ADMIN
    for wrong in (None, "", "Bearer", "Bearer se", "Bearer see2", "Basic see", "Bearer \udcff"):
        assert tokens.role_of(wrong) is None


def test_equal_tokens_prove_the_highest_role(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"operator": "same", "viewer": "same"}))
    assert load_tokens(path).role_of("Bearer same") is Role.OPERATOR


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"viewer": ""}', '{"root": "secret"}', '{"viewer": 7}']
)
def test_a_file_that_is_none_is_refused_without_telling_secrets(tmp_path, content):
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(TokensError) as refused:
        load_tokens(path)
    assert "secret" not in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(TokensError):
        load_tokens(tmp_path / "none.json")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_may_go_without_tokens(host):
    check_open(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_others_may_not(host):
    with pytest.raises(TokensError):
        check_open(host)


ADDRESSES = {"native": "h:1"}
DIRECTORY = Directory().with_node(
    Node(
        id=NodeId(4),
        host_id="four",
        addresses=ADDRESSES,
        location=Location("d", "r"),
        version="1",
    )
)
OWN = [
    Startup(node=NodeId(4), addresses=ADDRESSES, version="1"),
    Unregister(node=NodeId(4)),
    PrepareJoin(node=NodeId(4), tokens=(Token(1),)),
    PrepareLeave(node=NodeId(4)),
    PrepareMove(node=NodeId(4), tokens=(Token(1),)),
    PrepareReplace(node=NodeId(4), replaced=NodeId(5)),
]


def register(host_id):
    return Register(host_id=host_id, addresses=ADDRESSES, datacenter="d", rack="r", version="1")


@pytest.mark.parametrize("transformation", OWN, ids=lambda item: type(item).__name__)
def test_a_node_commits_what_concerns_itself(transformation):
    check_may_commit(Committer(Role.NODE, NodeId(4)), transformation, DIRECTORY, None)
    for other in (None, NodeId(5)):
        with pytest.raises(ProblemError) as refused:
            check_may_commit(Committer(Role.NODE, other), transformation, DIRECTORY, 7)
        problem = refused.value.problem
        assert (problem.code, problem.field, problem.index) == ("forbidden", "Ringlog-Node", 7)
    check_may_commit(Committer(Role.OPERATOR), transformation, DIRECTORY, None)


@pytest.mark.parametrize(
    "step",
    [StartJoin(sequence=SequenceId(9)), AdvanceCmsReconfiguration(sequence=SequenceId(9), step=0)],
    ids=lambda item: type(item).__name__,
)
def test_a_driver_commits_steps_of_any_sequence(step):
    for node in (None, NodeId(4)):
        check_may_commit(Committer(Role.NODE, node), step, DIRECTORY, None)


def test_a_node_registers_before_it_has_a_number():
    check_may_commit(Committer(Role.NODE), register("new"), DIRECTORY, None)
    check_may_commit(Committer(Role.NODE, NodeId(4)), register("four"), DIRECTORY, None)
    for named, host_id in ((4, "new"), (9, "four")):
        with pytest.raises(ProblemError, match="Register"):
            check_may_commit(
                Committer(Role.NODE, NodeId(named)), register(host_id), DIRECTORY, None
            )


def test_the_header_counts_for_the_role_node_alone():
    assert committer(Role.NODE, "17") == Committer(Role.NODE, NodeId(17))
    assert committer(Role.NODE, None) == Committer(Role.NODE)
    assert committer(Role.ADMIN, "17") == Committer(Role.ADMIN)
    for wrong in ("", "0", "-1", "x", "1.0", "٣", "9" * 40):
        with pytest.raises(ProblemError, match="number"):
            committer(Role.NODE, wrong)


@pytest.mark.parametrize(
    ("header", "is_ours"),
    [
        ("localhost", True),
        ("LocalHost:7400", True),
        ("127.0.0.1:7400", True),
        ("[::1]:7400", True),
        ("::1", False),
        ("10.1.2.3", True),
        ("cms-1:7480", True),
        ("CMS-1", True),
        ("cms-2:7480", False),
        ("evil.example:7400", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:7400", False),
        ("[evil.example]:7400", False),
        ("", False),
    ],
)
def test_a_name_that_leads_here_is_ours_only_if_we_say_so(header, is_ours):
    assert is_meant(header, "cms-1:7480") is is_ours
    assert is_meant(header, None) is (is_ours and "cms" not in header.lower())
