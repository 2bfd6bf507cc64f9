"""Asks the package index whether releases in requirements.lock have known vulnerabilities, through pip-audit.

An index that does not say is no clean bill: pip-audit itself ends well with nothing but packages that it left out.
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
_LONGEST: Final = 10  # packages that a line names


@dataclass(frozen=True)
class Verdict:
    """What is known of the lock.

    Attributes:
        code: to exit with: 0 only if every package was looked up and none is known to be vulnerable, 1 if one is, 2 if not all could be looked up.
        lines: for a person.
    """

    code: int
    lines: tuple[str, ...]


def verdict(report: Mapping[str, Any]) -> Verdict:
    """What follows from pip-audit's report in JSON."""
    told = report.get("dependencies") or []
    left_out = [each for each in told if "skip_reason" in each]
    found = [(each, vuln) for each in told for vuln in each.get("vulns") or ()]
    lines = [
        f"{each['name']} {each['version']}: {vuln['id']}"
        + (f", mended in {', '.join(vuln['fix_versions'])}" if vuln.get("fix_versions") else "")
        for each, vuln in found
    ]
    asked = len(told) - len(left_out)
    lines.append(
        f"{asked} of {len(told)} packages were looked up, {len({e['name'] for e, _ in found})} are vulnerable"
    )
    if left_out or not told:
        names = [each["name"] for each in left_out]
        more = f" and {len(names) - _LONGEST} more" if len(names) > _LONGEST else ""
        lines.append(f"NOT CHECKED: {', '.join(names[:_LONGEST]) or 'anything'}{more}")
        if left_out:
            lines.append(f"the first reason: {left_out[0]['skip_reason']}")
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
            return Verdict(UNKNOWN, ("NOT CHECKED: the index could not be asked", *last))
        return verdict(json.loads(target.read_text(encoding="utf-8")))


def main() -> int:
    """Entry point."""
    found = ask()
    for line in found.lines:
        print(f"audit: {line}")
    return found.code


if __name__ == "__main__":
    sys.exit(main())
