"""What `--json` prints, held against the schema that is part of the reference."""

import json
from functools import cache
from pathlib import Path

import jsonschema

PATH = Path(__file__).parents[2] / "docs" / "reference" / "command.schema.json"


@cache
def schema():
    return json.loads(PATH.read_text("utf-8"))


def valid(verb, answer):
    """`verb` as it is typed, such as "snapshot take"; one that the schema lacks is a fault."""
    jsonschema.validate({verb: answer}, schema())
    return answer
