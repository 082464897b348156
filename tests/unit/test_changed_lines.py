"""A difference in lines that a person reads."""

import pytest

from ringlog.commands.changed import changed_line

NODE = {"id": 4, "host_id": "h4", "addresses": {"http": "10.0.0.4:80"}, "state": "registered"}
RANGE = {"left": "-5", "right": "7"}


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (NODE, "id 4, host_id h4, addresses (http 10.0.0.4:80), state registered"),
        (
            {"before": NODE, "after": {**NODE, "state": "joined", "rack": "r1"}},
            "id 4: state registered → joined; rack – → r1",
        ),
        (
            {
                "placement": "simple:3",
                **RANGE,
                "readers": {"before": [1, 2], "after": [1, 2]},
                "writers": {"before": [1, 2], "after": [1, 2, 4]},
            },
            "(-5, 7] simple:3: writers 1, 2 → 1, 2, 4",
        ),
        ({"token": "-5", "node": 4}, "token -5, node 4"),
        (
            {"id": 16, "dead": [], "replaced": None, "index": 0, "force": True, "x": False},
            "id 16, index 0, force",
        ),
        ({"id": 16, "tokens": list("abcdefg")}, "id 16, 7 tokens"),
        ({"id": 16, "ranges": [RANGE]}, "id 16, ranges (-5, 7]"),
        ({"id": 16, "ranges": [RANGE, RANGE]}, "id 16, 2 ranges"),
        ({"name": "colour", "before": "blue", "after": None}, "name colour: blue → –"),
    ],
)
def test_says_what_it_is_and_only_what_differs(item, said):
    assert changed_line(item) == said
