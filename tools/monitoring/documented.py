"""The queries that docs/monitoring.md shows for joins with other exporters: tests run what a reader copies."""

import re
from pathlib import Path
from typing import Final

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"
_ROW: Final = re.compile(r"^\| ([^|]+) \| `([^`|]+)` \|$", re.MULTILINE)


def documented_queries() -> dict[str, str]:
    """Question → query, in the order of the page."""
    _, _, text = _PAGE.read_text().partition("\n## Joins\n")
    section, _, _ = text.partition("\n## ")
    return dict(_ROW.findall(section))
