"""The literal table of kinds, and the one door through which they are executed."""

from __future__ import annotations

from metadata.cluster import ClusterMetadata
from metadata.epoch import EMPTY
from transformations.cms import (
    AdvanceCmsReconfiguration,
    CancelCmsReconfiguration,
    PrepareCmsReconfiguration,
)
from transformations.directory import AlterTopology, Register, Startup, Unregister
from transformations.ending import CancelSequence, RetireSequence
from transformations.extensions import ClearExtension, SetExtension
from transformations.initialize import ForceSnapshot, Initialize, TriggerSnapshot
from transformations.join import FinishJoin, MidJoin, PrepareJoin, StartJoin, UnsafeJoin
from transformations.leave import Assassinate, FinishLeave, MidLeave, PrepareLeave, StartLeave
from transformations.move import FinishMove, MidMove, PrepareMove, StartMove
from transformations.outcome import Outcome, Reason, Rejected
from transformations.replace import FinishReplace, MidReplace, PrepareReplace, StartReplace
from transformations.schema import (
    AlterKeyspace,
    AlterTable,
    CreateKeyspace,
    CreateTable,
    DropKeyspace,
    DropTable,
)
from transformations.sessions import CloseSession, OpenSession

AnyTransformation = (
    Initialize
    | TriggerSnapshot
    | ForceSnapshot
    | Register
    | Startup
    | Unregister
    | AlterTopology
    | CreateKeyspace
    | AlterKeyspace
    | DropKeyspace
    | CreateTable
    | AlterTable
    | DropTable
    | PrepareJoin
    | StartJoin
    | MidJoin
    | FinishJoin
    | UnsafeJoin
    | PrepareLeave
    | StartLeave
    | MidLeave
    | FinishLeave
    | Assassinate
    | PrepareMove
    | StartMove
    | MidMove
    | FinishMove
    | PrepareReplace
    | StartReplace
    | MidReplace
    | FinishReplace
    | CancelSequence
    | RetireSequence
    | OpenSession
    | CloseSession
    | PrepareCmsReconfiguration
    | AdvanceCmsReconfiguration
    | CancelCmsReconfiguration
    | SetExtension
    | ClearExtension
)

KINDS: dict[str, type[AnyTransformation]] = {
    kind.__name__: kind for kind in AnyTransformation.__args__
}


def kind_of(transformation: AnyTransformation) -> str:
    return type(transformation).__name__


def execute(transformation: AnyTransformation, metadata: ClusterMetadata) -> Outcome:
    """Decide or apply; nothing but a founding entry is possible before the founding entry."""
    if metadata.epoch == EMPTY and not isinstance(transformation, Initialize):
        return Rejected(
            Reason.NOT_INITIALIZED,
            "this log has no founding entry yet",
            "commit Initialize first",
        )
    return transformation.execute(metadata)
