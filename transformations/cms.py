"""Changing the address book of the metadata service, one member at a time."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from metadata.cluster import ClusterMetadata
from metadata.cms import Cms, Member, MemberState, Reconfiguration
from metadata.epoch import following
from metadata.limits import MEMBERS_MAX, Count, Name, Url
from metadata.locks import SequenceId
from transformations.fields import SequenceRef, Verb
from transformations.outcome import Accepted, Outcome, Reason, Rejected, Result


class NewMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    url: Url


class PrepareCmsReconfiguration(Verb, frozen=True):
    """Plan additions and removals. Additions come first, so that the service never shrinks
    below what it needs to grow."""

    add: Annotated[tuple[NewMember, ...], Meta(max_length=MEMBERS_MAX)] = ()
    remove: Annotated[tuple[Name, ...], Meta(max_length=MEMBERS_MAX)] = ()

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        refused = self._refusal(metadata.cms)
        if refused is not None:
            return refused

        epoch = following(metadata.epoch)
        planned = Reconfiguration(
            id=SequenceId(epoch),
            add=tuple(Member(name=item.name, url=item.url) for item in self.add),
            remove=self.remove,
            index=0,
            epoch=epoch,
        )
        cms = msgspec.structs.replace(metadata.cms, reconfiguration=planned)
        return Accepted(after=metadata.successor(cms=cms), result=Result(sequence=planned.id))

    def _refusal(self, cms: Cms) -> Rejected | None:
        running = cms.reconfiguration
        if running is not None:
            return Rejected(
                Reason.SEQUENCE_IN_PROGRESS,
                f"reconfiguration {running.id} is not over",
                f"advance or cancel reconfiguration {running.id}",
                sequence=running.id,
            )
        if not self.add and not self.remove:
            return Rejected(Reason.NOTHING_TO_DO, "neither add nor remove names a member")
        return self._member_refusal(cms)

    def _member_refusal(self, cms: Cms) -> Rejected | None:
        names = [item.name for item in self.add]
        for name in names:
            if name in cms.members or names.count(name) > 1:
                return Rejected(
                    Reason.MEMBER_EXISTS, f"{name} is a member, or is given twice", "name it once"
                )
        for name in self.remove:
            if name not in cms.members or self.remove.count(name) > 1:
                return Rejected(
                    Reason.UNKNOWN_MEMBER, f"{name} is no member, or is given twice", "name it once"
                )
        if len(cms.members) + len(names) - len(self.remove) < 1:
            return Rejected(Reason.LAST_MEMBER, "no member would be left", "add one as well")
        return None


class AdvanceCmsReconfiguration(Verb, frozen=True):
    """Take the next step: a member comes as joining, becomes active, or goes.

    `step` is the index that the caller believes is due; two drivers that both advance would
    otherwise take two steps.
    """

    sequence: SequenceRef
    step: Count | None = None

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = _running(metadata.cms, self.sequence)
        if isinstance(found, Rejected):
            return found
        if self.step not in (None, found.index):
            return Rejected(
                Reason.WRONG_STEP,
                f"step {found.index} of reconfiguration {found.id} is due, not {self.step}",
                f"advance step {found.index}",
                sequence=found.id,
            )

        cms = _advanced(metadata.cms, found)
        return Accepted(after=metadata.successor(cms=cms), result=Result(sequence=found.id))


class CancelCmsReconfiguration(Verb, frozen=True):
    """Stop where it is; a member that was only joining goes."""

    sequence: SequenceRef

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        found = _running(metadata.cms, self.sequence)
        if isinstance(found, Rejected):
            return found

        joining = [
            name
            for name, member in metadata.cms.members.items()
            if member.state is MemberState.JOINING
        ]
        cms = Cms(members=metadata.cms.members.without(joining), epoch=metadata.cms.epoch)
        return Accepted(after=metadata.successor(cms=cms))


def _running(cms: Cms, wanted: SequenceId) -> Reconfiguration | Rejected:
    running = cms.reconfiguration
    if running is None or running.id != wanted:
        return Rejected(Reason.UNKNOWN_SEQUENCE, f"no reconfiguration {wanted} is in progress")
    return running


def _advanced(cms: Cms, running: Reconfiguration) -> Cms:
    """One step on; the reconfiguration goes with its last one."""
    add, remove, members = running.add, running.remove, cms.members
    if add:
        member = msgspec.structs.replace(add[0], state=MemberState.JOINING)
        if add[0].name in members:
            member, add = add[0], add[1:]
        members = members.with_item(member.name, member)
    else:
        members, remove = members.without(remove[:1]), remove[1:]
    rest = msgspec.structs.replace(running, add=add, remove=remove, index=running.index + 1)
    return Cms(members=members, reconfiguration=rest if add or remove else None, epoch=cms.epoch)
