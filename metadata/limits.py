"""What a value must look like to be one at all: names, texts, numbers and their bounds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

TOKENS_PER_NODE_MAX = 1024
NODES_LISTED_MAX = 10_000
COLUMNS_MAX = 1000
RANGES_LISTED_MAX = 100_000
MEMBERS_MAX = 64
ADDRESSES_MAX = 16
DATACENTERS_MAX = 256
FACTOR_MAX = 64
TEXT_MAX = 1024
VALUE_MAX = 64 * 1024
ID_MAX = 2**53
"""Ids and epochs stay exact in languages whose numbers are doubles."""

# A dollar sign alone would let a trailing newline through.
_WHOLE = r"$(?!\n)"
_HEX = "[0-9a-f]"

Name = Annotated[str, Meta(pattern=rf"^[A-Za-z_][A-Za-z0-9_]{{0,47}}{_WHOLE}")]
ExtensionName = Annotated[str, Meta(pattern=rf"^[A-Za-z_][A-Za-z0-9_./:-]{{0,255}}{_WHOLE}")]
PlaceName = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,63}}{_WHOLE}")]
"""A datacenter or rack; no comma or equals sign, so that placement keys are unambiguous."""
Label = Annotated[str, Meta(pattern=rf"^[^\x00-\x1f\x7f]{{1,128}}{_WHOLE}")]
Address = Annotated[str, Meta(pattern=rf"^[^\s\x00-\x1f]{{1,255}}:[0-9]{{1,5}}{_WHOLE}")]
Url = Annotated[str, Meta(pattern=rf"^https?://[^\s\x00-\x1f]{{1,500}}{_WHOLE}")]
Sentence = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Text = Annotated[str, Meta(max_length=VALUE_MAX)]
Decimal = Annotated[str, Meta(pattern=rf"^-?[0-9]{{1,60}}{_WHOLE}")]
Uuid = Annotated[
    str, Meta(pattern=rf"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}{_WHOLE}")
]
Hash = Annotated[str, Meta(pattern=rf"^{_HEX}{{64}}{_WHOLE}")]

Factor = Annotated[int, Meta(ge=1, le=FACTOR_MAX)]
FactorOrNone = Annotated[int, Meta(ge=0, le=FACTOR_MAX)]
Factors = Annotated[dict[PlaceName, FactorOrNone], Meta(min_length=1, max_length=DATACENTERS_MAX)]
Addresses = Annotated[dict[Label, Address], Meta(min_length=1, max_length=ADDRESSES_MAX)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
