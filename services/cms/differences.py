"""What changed between two versions of the metadata, as the API answers it."""

from __future__ import annotations

from encoding import differences as meaning
from metadata.cluster import ClusterMetadata
from services.cms.bodies import Difference

placement_changes = meaning.placement_changes


def differences(before: ClusterMetadata, after: ClusterMetadata) -> dict[str, Difference]:
    """By component; one that means the same is left out."""
    return {
        name: Difference(found.added, found.removed, found.changed)
        for name, found in meaning.differences(before, after).items()
    }
