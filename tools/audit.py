"""Checks with pip-audit whether releases in requirements.lock have known vulnerabilities, according to the package index.

An audit without answers from the index proves nothing, but pip-audit exits with 0 even if it skipped every package.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

LOCK: Final = Path(__file__).resolve().parent.parent / "requirements.lock"
CLEAN, VULNERABLE, UNKNOWN = 0, 1, 2
_LONGEST: Final = 10  # package names per line


@dataclass(frozen=True)
class Verdict:
    """Result of the audit.

    Attributes:
        code: exit code: 0 if every package was looked up and none has a known vulnerability, 1 if one has, 2 if not all could be looked up.
        lines: text to print.
    """

    code: int
    lines: tuple[str, ...]


def verdict(report: Mapping[str, Any]) -> Verdict:
    """Evaluate pip-audit's JSON report."""
    told = report.get("dependencies") or []
    left_out = [each for each in told if "skip_reason" in each]
    found = [(each, vuln) for each in told for vuln in each.get("vulns") or ()]
    lines = [
        f"{each['name']} {each['version']}: {vuln['id']}"
        + (f", fixed in {', '.join(vuln['fix_versions'])}" if vuln.get("fix_versions") else "")
        for each, vuln in found
    ]
    asked = len(told) - len(left_out)
    lines.append(
        f"{asked} of {len(told)} packages were looked up, vulnerable: {len({e['name'] for e, _ in found})}"
    )
    if left_out or not told:
        names = [each["name"] for each in left_out]
        more = f" and {len(names) - _LONGEST} more" if len(names) > _LONGEST else ""
        lines.append(f"NOT CHECKED: {', '.join(names[:_LONGEST]) or 'anything'}{more}")
        if left_out:
            lines.append(f"first reason: {left_out[0]['skip_reason']}")
    if found:
        return Verdict(VULNERABLE, tuple(lines))
    return Verdict(UNKNOWN if left_out or not told else CLEAN, tuple(lines))


def ask() -> Verdict:
    """Run pip-audit over the lock."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        command = (
            *(
                sys.executable,
                "-m",
                "pip_audit",
                "--requirement",
                str(LOCK),
                "--require-hashes",
                "--disable-pip",
            ),
            *("--format", "json", "--output", str(target), "--progress-spinner", "off"),
        )
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if not target.exists():
            last = ended.stderr.strip().splitlines()[-1:] or [f"pip-audit ended with {ended.returncode}"]
            return Verdict(UNKNOWN, ("NOT CHECKED: the index could not be queried", *last))
        return verdict(json.loads(target.read_text(encoding="utf-8")))


def main() -> int:
    """Entry point."""
    found = ask()
    for line in found.lines:
        print(f"audit: {line}")
    return found.code


if __name__ == "__main__":
    sys.exit(main())
