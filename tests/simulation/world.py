"""One seeded history: the real core and the naive model side by side."""

from __future__ import annotations

import random
from collections import Counter

from metadata.cluster import NOTHING_YET, ClusterMetadata
from metadata.image import image_of, metadata_of
from metadata.invariants import broken_between, violations
from metadata.schema import Network, Replication
from tests.simulation import checks
from tests.simulation.actions import Action, Actions, random_setting
from tests.simulation.model import Group, Model, owner_lookup
from transformations.initialize import Initialize
from transformations.kinds import execute, kind_of
from transformations.outcome import Accepted, Reason, Rejected

FROM_SCRATCH_EVERY = 20
"""How often the whole state is written out and read back, to compare digests."""


class DifferenceError(AssertionError):
    """The core, the model or an invariant disagree."""


class World:
    """Takes one random action after another and compares after each."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self.setting = random_setting(rng)
        self.actions = Actions(rng, self.setting)
        self.accepted: Counter[str] = Counter()
        self.rejected: Counter[tuple[str, str]] = Counter()
        self.model = Model()
        founded = Initialize(name="simulated", cluster="00000000-0000-0000-0000-000000000001")
        outcome = execute(founded, NOTHING_YET)
        assert isinstance(outcome, Accepted)
        self.accepted["Initialize"] += 1
        self.metadata: ClusterMetadata = outcome.after

    def step(self) -> Action | None:
        action = self.actions.draw(self.metadata)
        if action is None:
            return None
        outcome = execute(action.transformation, self.metadata)
        kind = kind_of(action.transformation)
        if isinstance(outcome, Rejected):
            self.rejected[kind, outcome.reason] += 1
            self._check_refusal(action, outcome)
        else:
            self.accepted[kind] += 1
            self._check_acceptance(action, outcome)
        return action

    def finish(self) -> None:
        """At rest, placements are what replication gives, computed from scratch."""
        for _ in range(100):
            waiting = self.metadata.sequences.in_progress.values()
            if not waiting:
                break
            action = self.actions._advance(self.metadata)
            outcome = execute(action.transformation, self.metadata)
            assert isinstance(outcome, Accepted), outcome
            self._check_acceptance(action, outcome)
        for setting in self.model.settings():
            owners = owner_lookup(self.model.ring(), setting)
            for left, right, found, _ in self.model.reads[setting]:
                self._same(f"({left}, {right}] at rest", found, owners(right))

    def _check_refusal(self, action: Action, outcome: Rejected) -> None:
        if action.op is None or outcome.reason is Reason.SOURCES_LOST:
            return
        if checks.excuse(self.model, action.op) is None:
            raise DifferenceError(f"{action.op} refused without need: {outcome}")

    def _check_acceptance(self, action: Action, outcome: Accepted) -> None:
        if action.op is not None:
            objection = checks.explain(self.model, action.op)
            if objection is not None:
                raise DifferenceError(f"accepted although {objection}")
        before, self.metadata = self.metadata, outcome.after
        for violation in (*violations(outcome.after), *broken_between(before, outcome.after)):
            raise DifferenceError(f"{violation.rule}: {violation.detail}")
        if action.op is not None:
            self._check_model(action)
        if outcome.after.epoch % FROM_SCRATCH_EVERY == 0:
            rebuilt = metadata_of(image_of(outcome.after))
            self._same("digest from scratch", rebuilt.digest, outcome.after.digest)

    def _check_model(self, action: Action) -> None:
        op, model = action.op, self.model
        assert op is not None
        earlier = {setting: model.quorum_groups(setting) for setting in model.settings()}
        model.apply(op, self.metadata.epoch)
        for fault in model.drift():
            raise DifferenceError(fault)
        self._same("nodes", self._nodes(), self._model_nodes())
        ring, flying = checks.joined_ring(model), checks.flights(model)
        settings = {
            plain(item.replication): item.replication.key
            for item in self.metadata.schema.keyspaces.values()
        }
        self._same("settings in use", sorted(settings), model.settings())
        for setting, key in settings.items():
            placement = self.metadata.placements.placed[key]
            reads, writes = groups(placement.reads), groups(placement.writes)
            self._same_groups(f"reads of {key}", reads, model.reads[setting], op)
            self._same_groups(f"writes of {key}", writes, model.writes[setting], op)
            faults = [
                *checks.cover_faults(reads, model.cuts()),
                *checks.read_faults(reads, setting, ring, flying),
                *checks.write_faults(reads, writes, setting, flying),
                *checks.surplus_faults(writes, setting, ring, flying),
            ]
            if op.sequence:
                faults += checks.quorum_faults(earlier[setting], model.quorum_groups(setting))
            for fault in faults:
                raise DifferenceError(f"{key}: {fault}")

    def _same_groups(self, what: str, ours: list[Group], theirs: list[Group], op: object) -> None:
        for real, naive in zip(ours, theirs, strict=True):
            self._same(f"{what} after {op}", real, naive)

    def _nodes(self) -> dict[int, tuple]:
        return {
            node.id: (
                node.state.upper(),
                node.location.datacenter,
                node.location.rack,
                frozenset(self.metadata.ring.tokens_of(node.id)),
            )
            for node in self.metadata.directory.nodes.values()
        }

    def _model_nodes(self) -> dict[int, tuple]:
        return {
            name: (node.state, node.datacenter, node.rack, node.tokens)
            for name, node in self.model.nodes.items()
        }

    def _same(self, what: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            raise DifferenceError(f"{what}: the core has {ours}, the model {theirs}")


def plain(replication: Replication) -> tuple:
    if isinstance(replication, Network):
        return ("network", tuple(sorted(replication.factors.items())))
    return ("simple", replication.factor)


def groups(side) -> list[Group]:
    return [
        (span.left, span.right, frozenset(group.owners), group.epoch)
        for span, group in side.items()
    ]
