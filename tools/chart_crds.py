"""Writes the CustomResourceDefinitions of ``crds/`` into the chart as templates.

Helm never upgrades a chart's ``crds/`` folder, but it upgrades templates. The resource policy ``keep`` leaves the
definitions, and with them every cluster, when the chart is uninstalled.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from tools.generate import dump

ROOT = Path(__file__).resolve().parent.parent
CRDS = ROOT / "crds"
TEMPLATES = ROOT / "charts/spindle/templates"

_HEAD = "{{- /* Generated from crds/ by tools/chart_crds.py. Change the models, then run `make generate`. */ -}}\n"


def template(crd: dict[str, Any]) -> str:
    """One definition as a chart template.

    Braces in descriptions and messages are escaped, because Helm would read them as template code.
    """
    metadata = {**crd["metadata"]}
    metadata["annotations"] = {**metadata.get("annotations", {}), "helm.sh/resource-policy": "keep"}
    text = dump({**crd, "metadata": metadata})
    text = text.replace("{{", '{{ "{{" }}')
    return f"{_HEAD}{{{{- if .Values.crds.install }}}}\n{text}{{{{- end }}}}\n"


def templates() -> dict[Path, str]:
    """Expected content of the chart's templates, by path."""
    found: dict[Path, str] = {}
    for source in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(source.read_text()):
            if crd:
                found[TEMPLATES / f"crd-{crd['spec']['names']['plural']}.yaml"] = template(crd)
    return found


def main() -> int:
    """Write the templates and delete those whose definition no longer exists."""
    wanted = templates()
    if not wanted:
        print(f"no definitions in {CRDS}", file=sys.stderr)
        return 1
    for path in TEMPLATES.glob("crd-*.yaml"):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
