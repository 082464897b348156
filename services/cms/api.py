"""What the handlers of the CMS share."""

from __future__ import annotations

from typing import TypeAlias

from services.cms.engine import Engine
from services.cms.metrics import Metrics
from services.http import api

Api: TypeAlias = api.Api[Engine, Metrics]
