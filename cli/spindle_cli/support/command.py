"""The command ``spindle report``."""

import io
import os
import tarfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from spindle_cli.kube import Kube, KubeError
from spindle_cli.screen import say
from spindle_cli.support.collect import Bundle, Limits
from spindle_cli.terminal import Namespace, sentences

_FOR_OWNER: Final = 0o600


def report(
    cluster: Annotated[str | None, typer.Argument(help="KafkaCluster; default: the only one.")] = None,
    namespace: Namespace = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; default: spindle-report-<cluster>-<time>.tar.gz."
        ),
    ] = None,
    lines: Annotated[int, typer.Option(min=1, help="Last lines of each log.")] = Limits.lines,
    pods: Annotated[
        int,
        typer.Option(min=0, help="Kafka pods whose logs are included; pods that are not ready come first."),
    ] = Limits.pods,
) -> None:
    """Write a support bundle: resources, events, logs, versions, and Kafka's state as the operator sees it. Contains no secrets."""
    with sentences():
        kube = Kube.connect(namespace)
        name = kube.one_cluster(cluster)
        path = out or Path(f"spindle-report-{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
        bundle = Bundle(kube, name, Limits(lines, pods))
        try:
            count = write(path, path.name.removesuffix(".tar.gz"), bundle.files())
        except OSError as error:
            raise KubeError(f"cannot write {path}: {error.strerror}") from error
    say(f"{path}: {count} files, {path.stat().st_size / 1024:.0f} KiB")
    for problem in bundle.problems:
        say(f"not included: {problem}", err=True)


def write(path: Path, folder: str, files: Iterable[tuple[str, bytes]]) -> int:
    """Write a new archive that only its owner can read; returns the number of files in it."""
    count = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_OWNER)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), _FOR_OWNER
            archive.addfile(entry, io.BytesIO(content))
            count += 1
    return count
