"""Run seeded histories: `python -m tests.simulation --seed 7 --steps 2000`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.world import World
from transformations.kinds import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: drawn)")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after another")
    parser.add_argument("--steps", type=int, default=2000, help="random actions for each seed")
    parser.add_argument("--quiet", action="store_true", help="no table of kinds")
    options = parser.parse_args()
    first = int(time.time()) if options.seed is None else options.seed
    accepted: Counter[str] = Counter()
    rejected: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + options.seeds):
        world = World(seed)
        if not run(world, options.steps):
            return 1
        accepted += world.accepted
        rejected += world.rejected
    if not options.quiet:
        show(accepted, rejected)
    never = sorted(KINDS.keys() - accepted.keys())
    if never:
        print(f"never accepted: {', '.join(never)}")
        return 1
    return 0


def run(world: World, steps: int) -> bool:
    """True if the core and the model agreed to the end."""
    started = time.perf_counter()
    for step in range(steps):
        try:
            world.step()
        except AssertionError as error:
            print(f"seed {world.seed}, step {step}, epoch {world.metadata.epoch}: {error}")
            return False
    world.finish()
    took = time.perf_counter() - started
    nodes = len(world.metadata.ring.by_node)
    print(
        f"seed {world.seed}: {steps} steps, {sum(world.accepted.values())} accepted, "
        f"{sum(world.rejected.values())} rejected, {nodes} nodes in the end, {took:.1f} s, "
        f"{world.setting}"
    )
    return True


def show(accepted: Counter[str], rejected: Counter[tuple[str, str]]) -> None:
    for kind in sorted(KINDS):
        reasons = {reason: count for (name, reason), count in rejected.items() if name == kind}
        text = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
        print(f"{kind:28} accepted {accepted[kind]:6}   rejected {text or 0}")


if __name__ == "__main__":
    sys.exit(main())
