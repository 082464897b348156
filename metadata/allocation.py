"""Choosing the tokens of a node that joins, so that every node holds its share.

Tokens are chosen one after another. Every range of the ring makes an offer: where within it a
cut does most good, and how much. The best offer is taken. In the end each token is taken back
once and chosen again, with all the others in place.

Good is a smaller sum of squares, over all nodes, of what a node holds beyond its share. It is
counted for the first copy alone, so that keyspaces of any factor fare well, and for all copies
together. There a token takes more than the range it cuts: it takes ranges before it too, each
from the node that held the last copy or from the next node of the newcomer's rack.

All arithmetic is elementwise or in a fixed order, so equal input gives equal tokens everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metadata.directory import NodeId
from metadata.tokens import MINIMUM, Token

_Floats: TypeAlias = NDArray[np.float64]
_Indexes: TypeAlias = NDArray[np.int64]

_CIRCLE = 2**64
"""A place is a token's distance from the minimum token; places are counted modulo this."""

_EVENNESS = 0.25
"""How much it counts to cut large ranges, in the middle; else slivers spoil later choices."""

_SLIVER = 0.05
"""No cut is nearer to either end of a range than this part of it."""

_ROUNDS_MAX = 16
"""When more tokens than this are wanted, several are chosen from the same offers."""


def allocate(
    ring: Mapping[NodeId, Collection[Token]],
    rack_of: Mapping[NodeId, str],
    *,
    rack: str,
    factor: int,
    count: int,
    taken: Iterable[Token] = (),
) -> tuple[Token, ...]:
    """Tokens, ascending, for a node that joins the datacenter of `ring` on `rack`.

    A node's share is in proportion to how many tokens it has. `taken` has the tokens of other
    datacenters; they are kept clear of and otherwise mean nothing.
    """
    assert count > 0
    assert factor > 0
    used = {token - MINIMUM for tokens in (*ring.values(), taken) for token in tokens} | {0}
    nodes = sorted(node for node in ring if ring[node])
    if not nodes:
        places = _spread(count, used)
    else:
        start = _numbered([ring[node] for node in nodes], [*map(rack_of.__getitem__, nodes), rack])
        weights = np.array([*(len(ring[node]) for node in nodes), count], dtype=np.float64)
        places = _cut(start, _sides(factor, weights, start.racks), used, count)
    return tuple(sorted(Token(place + MINIMUM) for place in places))


def _spread(count: int, used: set[int]) -> list[int]:
    """Even places, shifted as far as can be from those of other datacenters."""
    step = _CIRCLE // count
    phases = sorted({place % step for place in used})
    gaps = zip(phases, [*phases[1:], phases[0] + step], strict=True)
    width, left = max((right - left, left) for left, right in gaps)
    shift = left + width // 2
    return [_claim(shift + index * _CIRCLE // count, used) for index in range(count)]


def _claim(wish: int, used: set[int]) -> int:
    """The first place from the wished one on that is not in use; now it is."""
    place = wish % _CIRCLE
    while place in used:
        place = (place + 1) % _CIRCLE
    used.add(place)
    return place


class _Ring(NamedTuple):
    """The ring while it is being cut. Nodes are numbered from 0, the newcomer last."""

    places: NDArray[np.uint64]
    owners: _Indexes
    racks: _Indexes

    @property
    def newcomer(self) -> int:
        return len(self.racks) - 1

    @property
    def widths(self) -> _Floats:
        """Parts of the circle; range i ends at token i."""
        if len(self.places) == 1:
            return np.ones(1)
        return (self.places - np.roll(self.places, 1)) / float(_CIRCLE)

    def with_tokens(self, places: Sequence[int]) -> _Ring:
        """The ring in which the newcomer has these too."""
        added = np.sort(np.array(places, dtype=np.uint64))
        at = np.searchsorted(self.places, added)
        owners = np.insert(self.owners, at, self.newcomer)
        return self._replace(places=np.insert(self.places, at, added), owners=owners)

    def without_token(self, place: int) -> _Ring:
        kept = self.places != np.uint64(place)
        return self._replace(places=self.places[kept], owners=self.owners[kept])


def _numbered(tokens: Sequence[Collection[Token]], racks: Sequence[str]) -> _Ring:
    pairs = sorted((token - MINIMUM, node) for node, held in enumerate(tokens) for token in held)
    places, owners = zip(*pairs, strict=True)
    numbers = {name: number for number, name in enumerate(sorted(set(racks)))}
    return _Ring(
        np.array(places, dtype=np.uint64),
        np.array(owners, dtype=np.int64),
        np.array([numbers[name] for name in racks], dtype=np.int64),
    )


class _Side(NamedTuple):
    """One way to count what nodes hold: the first copy, or all copies together.

    A range is held by nodes of different racks, but for `repeats`. Nodes of the same `kin`
    exclude each other from a range.
    """

    factor: int
    repeats: int
    racks: _Indexes
    kin: _Indexes
    shares: _Floats


def _sides(factor: int, weights: _Floats, racks: _Indexes) -> list[_Side]:
    """What to balance: the first copy always, all copies if the newcomer has a choice there.

    It has none where every node holds everything, or where its rack must hold a whole copy and
    it is there alone.
    """
    count = len(np.unique(racks))
    alone = racks[-1] not in racks[:-1]
    forced = len(racks) <= factor or (alone and count <= factor)
    each = np.arange(len(racks))
    return [
        _Side(
            factor=copies,
            repeats=max(0, copies - count) if count > 1 else 0,
            # One rack for all is the same as one for each, and makes the walk simpler.
            racks=racks if count > 1 else each,
            kin=racks if count >= copies else each,
            shares=_shares(copies, weights, racks),
        )
        for copies in sorted({1} if forced else {1, factor})
    ]


def _shares(factor: int, weights: _Floats, racks: _Indexes) -> _Floats:
    """What each node should hold, as a part of all copies.

    A rack holds at most one copy, or what is left when every other rack has one; and never less
    than one if there are no more racks than copies. Between these bounds weight decides.
    """
    by_rack = np.bincount(racks, weights=weights)
    least, most = float(len(by_rack) <= factor), max(1.0, factor - len(by_rack) + 1.0)
    low, high = 0.0, factor / float(by_rack.min())
    for _ in range(64):
        level = (low + high) / 2
        enough = fsum(np.clip(by_rack * level, least, most)) >= factor
        low, high = (low, level) if enough else (level, high)
    copies: _Floats = np.clip(by_rack * high, least, most)
    shares: _Floats = np.minimum((copies / by_rack)[racks] * weights, 1.0) / factor
    return shares


def _cut(ring: _Ring, sides: Sequence[_Side], used: set[int], count: int) -> list[int]:
    batch = -(-count // _ROUNDS_MAX)
    chosen: list[int] = []

    def choose(left: int, most: int) -> None:
        nonlocal ring
        costs, cuts = _offers(ring, sides, left)
        best = _best(costs, ring.owners, most)
        wishes = [int(ring.places[at - 1]) + int(cuts[at] * _CIRCLE) for at in best]
        places = [_claim(wish, used) for wish in wishes]
        ring = ring.with_tokens(places)
        chosen.extend(places)

    while len(chosen) < count:
        left = count - len(chosen)
        choose(left, min(batch, left))
    for _ in range(min(count, _ROUNDS_MAX)):
        regretted = chosen.pop(0)
        ring = ring.without_token(regretted)
        used.remove(regretted)
        choose(1, 1)
    return chosen


def _best(costs: _Floats, owners: _Indexes, most: int) -> list[int]:
    """The cheapest offers, one of each owner: who has lost a range offers less for the next."""
    costs = costs.copy()
    best: list[int] = []
    for _ in range(most):
        at = int(np.argmin(costs))
        if costs[at] == np.inf:
            break
        best.append(at)
        costs[owners == owners[at]] = np.inf
    return best


class _Term(NamedTuple):
    """A cost of `weight` × (`excess` − `rate` × cut)² for each range.

    `aim` is how much of the excess this one cut should remove.
    """

    weight: float
    excess: _Floats
    aim: _Floats
    rate: _Floats


def _offers(ring: _Ring, sides: Sequence[_Side], left: int) -> tuple[_Floats, _Floats]:
    """For each range what its best cut costs, and how much the cut gives to the newcomer.

    The newcomer still needs `left` tokens.
    """
    widths = ring.widths
    costs = -_EVENNESS * widths * widths / 2
    terms = [_Term(2 * _EVENNESS, widths / 2, widths / 2, np.ones(len(widths)))]
    for side in sides:
        fixed, more = _effects(ring, widths, side, left)
        costs += fixed
        terms += more
    slopes = sum(term.weight * term.rate * term.aim for term in terms)
    bends = sum(term.weight * term.rate * term.rate for term in terms)
    cuts = np.clip(slopes / bends, _SLIVER * widths, (1 - _SLIVER) * widths)
    for term in terms:
        rest = term.excess - term.rate * cuts
        costs += term.weight * rest * rest
    costs[ring.owners == ring.newcomer] = np.inf
    return costs, cuts


def _effects(ring: _Ring, widths: _Floats, side: _Side, left: int) -> tuple[_Floats, list[_Term]]:
    """What a token within each range costs: whatever the cut, and depending on it."""
    owned, ends = _walk(ring.owners, side)
    parts = widths / side.factor
    held = np.bincount(owned.ravel(), np.tile(parts, side.factor), len(ring.racks))
    excess = held - side.shares
    last = owned[-1]
    first, middle, following = _reach(ends, np.flatnonzero(side.kin[ring.owners] == side.kin[-1]))
    heir = ring.owners[following]
    here = np.arange(len(parts))
    loser = np.where(middle <= here, heir, last)
    middle = np.minimum(middle, here)
    inherited = _sums(parts, middle, here)
    gained = _sums(parts, first, middle) + np.where(heir == ring.newcomer, 0.0, inherited)
    fixed = _sums(parts * (parts - 2 * excess[last]), first, middle)

    # Where the newcomer would lose to itself the cut changes nothing.
    real = loser != ring.newcomer
    rate = np.where(real, 1 / side.factor, 0.0)
    before = np.where(real, excess[loser], 0.0)
    after = np.where(real, before - inherited, 0.0)
    room = -excess[-1] / left - gained
    return side.factor * (fixed - before * before), [
        _Term(side.factor, after, np.minimum(after, room), rate),
        _Term(side.factor, room, room, rate),
    ]


def _reach(ends: _Indexes, kin: _Indexes) -> tuple[_Indexes, _Indexes, _Indexes]:
    """For a token put before each token: the ranges it takes, and who loses them.

    It takes the ranges from the first index on. Up to the second, whoever has the last copy
    loses them; from there on the next kin does, whose token is the third. The first two count
    on below 0, into the lap before. `kin` are the tokens of the newcomer's kin.
    """
    size = len(ends)
    here = np.arange(size)
    # The two outermost stand for none at all.
    laps = np.concatenate(([-2 * size], kin - size, kin, kin + size, [3 * size]))
    at = np.searchsorted(laps, here)
    end_laps = np.concatenate((ends - size, ends, ends + size))
    reached = np.searchsorted(end_laps, here) - size
    first = np.maximum(np.maximum(reached, laps[at - 1] + 1), here - size + 1)
    shared = np.searchsorted(end_laps, laps[at]) - size
    return first, np.maximum(shared, first), laps[at] % size


def _sums(values: _Floats, start: _Indexes, stop: _Indexes) -> _Floats:
    """The sum from each start up to its stop; indexes below 0 are in the lap before."""
    totals = np.concatenate(([0.0], np.cumsum(np.concatenate((values, values)))))
    return totals[stop + len(values)] - totals[start + len(values)]


def _walk(owners: _Indexes, side: _Side) -> tuple[_Indexes, _Indexes]:
    """The nodes that hold each range, by the network strategy, and the index of the last one."""
    size = len(owners)
    held = np.full((side.factor, size), -1)
    used = np.full((side.factor, size), -1)
    ends = np.zeros(size, dtype=np.int64)
    filled = np.zeros(size, dtype=np.int64)
    spare = np.full(size, side.repeats)
    track = walking = at = np.arange(size)
    steps = 0
    while len(walking):
        node = owners[track[at]]
        rack = side.racks[node]
        repeat = (used[:, walking] == rack).any(axis=0)
        taken = ~repeat
        if side.repeats:
            taken |= (spare[walking] > 0) & (held[:, walking] != node).all(axis=0)
            spare[walking] -= taken & repeat
        by = walking[taken]
        held[filled[by], by], used[filled[by], by] = node[taken], rack[taken]
        ends[by] = by + (track[at[taken]] - by) % size
        filled[by] += 1
        on = filled[walking] < side.factor
        walking, at = walking[on], (at[on] + 1) % len(track)
        steps += 1
        # Racks that all have met are passed over from here on: else a rare rack costs a long walk.
        if steps % 8 == 0 and len(walking) and not spare[walking].any():
            useful = track[~np.isin(side.racks[owners[track]], _common(used[:, walking]))]
            track, at = useful, np.searchsorted(useful, track[at]) % len(useful)
    return held, ends


def _common(columns: _Indexes) -> list[int]:
    """What is in every column."""
    return [each for each in columns[:, 0].tolist() if (columns == each).any(axis=0).all()]
