"""Every generated page by its name."""

from pathlib import Path

from tests.reference.command import command_page
from tests.reference.kinds import kinds_page
from tests.reference.settings import settings_page

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {"command.md": command_page, "settings.md": settings_page, "kinds.md": kinds_page}
