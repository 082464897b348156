"""Commit, read and follow, from a plain script.

Start a cluster with `ringlog up`, then: python examples/connect.py http://127.0.0.1:7400
"""

from __future__ import annotations

import sys
from itertools import islice

import ringlog
from client.answers import Committed, Rejected
from transformations.extensions import SetExtension


def main(url: str) -> None:
    with ringlog.connect(url) as cluster:
        match cluster.commit(SetExtension(name="motd", value="hello"), actor="example"):
            case Committed(epoch=epoch):
                print(f"committed at epoch {epoch}")
            case Rejected(code=code, detail=detail):
                print(f"refused: {detail} ({code})")

        print("now:", cluster.component("extensions")["extensions"])
        print("at epoch 1:", cluster.component("extensions", at=1)["extensions"])
        for sealed in islice(cluster.follow(), 2):
            print(sealed.epoch, sealed.kind, sealed.hash.hex()[:16])


if __name__ == "__main__":
    main(sys.argv[1])
