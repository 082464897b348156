"""Named values that users of the log keep in the metadata."""

from __future__ import annotations

from metadata.cluster import ClusterMetadata
from metadata.epoch import following
from metadata.limits import ExtensionName, Text
from transformations.fields import Verb
from transformations.outcome import Accepted, Outcome, Reason, Rejected


class SetExtension(Verb, frozen=True):
    name: ExtensionName
    value: Text

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        extensions = metadata.extensions
        changed = extensions.with_value(self.name, self.value, following(metadata.epoch))
        return Accepted(after=metadata.successor(extensions=changed))


class ClearExtension(Verb, frozen=True):
    name: ExtensionName

    def execute(self, metadata: ClusterMetadata) -> Outcome:
        if self.name not in metadata.extensions.by_name:
            return Rejected(Reason.UNKNOWN_EXTENSION, f"extension {self.name} is not set")

        changed = metadata.extensions.without(self.name)
        return Accepted(after=metadata.successor(extensions=changed))
