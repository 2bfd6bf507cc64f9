"""Prints the part of requirements.lock that the image needs, with pins and hashes unchanged; used to build it.

locked_requirements.py pyproject.toml requirements.lock EXTRA…   the dependencies with those of the extras, and all their dependencies
locked_requirements.py pyproject.toml requirements.lock --build  what is needed to build the package

The lock names the dependents of each package ("via"): following these from the roots yields the part.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def roots(config: dict[str, Any], extras: list[str]) -> set[str]:
    """Names of the packages that pyproject.toml requires."""
    if extras == ["--build"]:
        asked = config["build-system"]["requires"]
    else:
        project = config["project"]
        asked = project["dependencies"] + [
            one for extra in extras for one in project["optional-dependencies"][extra]
        ]
    return {_normal(re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0]) for each in asked}


def part(lock: str, wanted: set[str]) -> list[str]:
    """The lock's blocks for these packages and all their dependencies."""
    blocks = {
        _normal(block.split("==")[0].split("[")[0]): block
        for block in re.split(r"\n(?=[a-z])", lock)
        if "==" in block
    }
    missing = wanted - blocks.keys()
    if missing:
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}: regenerate it")
    parents = {
        name: {_normal(each) for each in re.findall(r"^    #(?: via)? +([\w.-]+)$", block, re.MULTILINE)}
        for name, block in blocks.items()
    }
    found = set(wanted)
    while more := {name for name, by in parents.items() if by & found} - found:
        found |= more
    return [blocks[name].rstrip() for name in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip().lower())


def main(pyproject: str, lock: str, *extras: str) -> None:
    """Print the part."""
    config = tomllib.loads(Path(pyproject).read_text(encoding="utf-8"))
    text = Path(lock).read_text(encoding="utf-8")
    sys.stdout.writelines(f"{block}\n" for block in part(text, roots(config, list(extras))))


if __name__ == "__main__":
    main(*sys.argv[1:])
