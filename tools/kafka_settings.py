"""Writes ``core/spindle/config/releases/``: the settings of brokers and of topics of each supported Kafka release, read from its jars.

``python -m tools.kafka_settings`` writes the files, ``python -m tools.kafka_settings --check`` only reports differences. The jars are downloaded from Maven once
and stay in the testbed's cache.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from e2e.cluster import versions
from e2e.cluster.build import ensure_kafka_libs

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "core" / "spindle" / "config" / "releases"
# The patch release from which the table of each minor release is read.
RELEASES: Final = {".".join(version.split(".")[:2]): version for version in versions.KAFKA_RELEASES}
_ORDER: Final = (
    *(
        "type",
        "min",
        "max",
        "also",
        "allowed",
        "anyCase",
        "filled",
        "default",
        "update",
        "sensitive",
        "internal",
    ),
)
_PROGRAM: Final = Path(__file__).with_name("KafkaSettings.java")
# Meaning of Kafka's descriptions of validators that are functions; the tool stops at an unknown one.
_SAID: Final[Mapping[str, Mapping[str, Any]]] = {
    "[1,...,9] or -1": {"min": 1, "max": 9, "also": [-1]},
    "non-empty list": {"filled": True},
    # The lists of throttled replicas, which are Spindle's own: no user's value is checked.
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": {},
}


def table(version: str, of: str = "table") -> str:
    """Content of a release's file: JSON, one line per setting.

    Args:
        version: the release.
        of: ``table`` for the brokers' settings, ``topics`` for those of a topic.

    Raises:
        ValueError: Kafka checks a setting with a validator that this tool does not know.
    """
    rows = {}
    for line in _java(version, of).splitlines():
        row = json.loads(line)
        said = row.pop("said", None)
        if said is not None:
            if said not in _SAID:
                raise ValueError(
                    f"{row['name']} of Kafka {version} is checked by {said!r}: add its meaning to _SAID"
                )
            row |= _SAID[said]
        rows[row.pop("name")] = {part: row[part] for part in _ORDER if part in row}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
    return f"{{\n{lines}\n}}\n"


def judge(version: str, configurations: Sequence[Mapping[str, str]]) -> list[str | None]:
    """Validate whole configurations with Kafka's classes. Returns for each None if a node would start with it, else the error."""
    text = "".join(
        "".join(f"{key}\t{value}\n" for key, value in configuration.items()) + "\n"
        for configuration in configurations
    )
    said = _java(version, "judge", text).splitlines()
    if len(said) != len(configurations):
        raise ValueError(
            f"{len(configurations)} configurations were checked, but {len(said)} answers came back"
        )
    return [None if verdict == "ok" else verdict for verdict in said]


def _java(version: str, what: str, said: str = "") -> str:
    libs = ensure_kafka_libs(version)
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{libs}/*", str(_PROGRAM), what]
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{_PROGRAM.name} {what} with Kafka {version}: {done.stderr[-2000:]}")
    return done.stdout


def stale() -> dict[Path, str]:
    """Files that differ from Kafka's jars, with their expected content."""
    wanted = {FOLDER / f"{minor}.json": table(version) for minor, version in RELEASES.items()}
    wanted |= {
        FOLDER / f"{minor}-topics.json": table(version, "topics") for minor, version in RELEASES.items()
    }
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` only compare. Returns 1 if there was a difference to report."""
    behind = stale()
    for path, text in behind.items():
        if "--check" in arguments:
            print(
                f"{path.relative_to(ROOT)} differs from Kafka's jars: run python -m tools.kafka_settings",
                file=sys.stderr,
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(path.relative_to(ROOT))
    return 1 if behind and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
