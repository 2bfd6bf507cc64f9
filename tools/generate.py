"""Generates ``crds/``, ``docs/reference/``, the chart's alerts and its README from the models, tables and values.

``python -m tools.generate`` writes the files, ``python -m tools.generate --check`` only reports differences.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from spindle.api.crd import KINDS, crds
from tools.chart_readme import CHART, readme
from tools.disk_life import disk_life_page
from tools.images.dockerfile import dockerfiles
from tools.monitoring.alerts_page import alerts_page
from tools.monitoring.chart_rules import prometheus_rule
from tools.monitoring.dashboards import DASHBOARDS, dashboard_json
from tools.monitoring.metrics_page import metrics_page
from tools.reasons_page import reasons_page
from tools.reference import index_page, kind_page, owned_page

ROOT = Path(__file__).resolve().parent.parent
_HEAD = "# Generated from core/spindle/api by `make generate`. Change the models, not this file.\n"


class _Plain(yaml.SafeDumper):
    """Dumper without YAML anchors and aliases: a repeated part is written out each time, for readability."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return True


def dump(document: Mapping[str, Any]) -> str:
    """YAML text with keys in the given order."""
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True)


def generated() -> dict[Path, str]:
    """Every generated file, by path, with its expected content."""
    files = {ROOT / "crds" / name: _HEAD + dump(crd) for name, crd in crds().items()}
    pages = ROOT / "docs" / "reference"
    files |= {pages / f"{kind.name.lower()}.md": kind_page(kind) for kind in KINDS}
    files[pages / "owned-config.md"] = owned_page()
    files[pages / "disk-life.md"] = disk_life_page()
    files[pages / "reasons.md"] = reasons_page()
    files[pages / "metrics.md"] = metrics_page()
    files[pages / "alerts.md"] = alerts_page()
    files[ROOT / "charts/spindle/templates/prometheusrule.yaml"] = prometheus_rule()
    files[CHART / "README.md"] = readme((CHART / "values.yaml").read_text())
    files |= dockerfiles()
    boards = ROOT / "charts/spindle/dashboards"
    files |= {boards / f"{board.uid}.json": dashboard_json(board) for board in DASHBOARDS}
    files[pages / "README.md"] = index_page(KINDS)
    return files


def stale() -> list[Path]:
    """Files that differ from the models, or that no model generates any more."""
    wanted = generated()
    there = {
        *(ROOT / "crds").glob("*.yaml"),
        *(ROOT / "docs" / "reference").glob("*.md"),
        *(ROOT / "charts/spindle/dashboards").glob("*.json"),
    }
    differing = {path for path, text in wanted.items() if not path.exists() or path.read_text() != text}
    return sorted(differing | (there - wanted.keys()))


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` only compare. Returns 1 if there was a difference."""
    behind = stale()
    if "--check" in arguments:
        for path in behind:
            print(
                f"{path.relative_to(ROOT)} is out of date with the models: run `make generate`",
                file=sys.stderr,
            )
        return 1 if behind else 0
    wanted = generated()
    for path in behind:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
