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

from spindle_cli.copied import command
from spindle_cli.kube import Kube, KubeError, NotFoundError
from spindle_cli.screen import say
from spindle_cli.support.collect import Bundle, Limits
from spindle_cli.terminal import Cluster, Namespace, sentences

_FOR_OWNER: Final = 0o600


def report(
    cluster: Cluster = None,
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
    deleted: Annotated[
        bool,
        typer.Option(
            "--deleted", help="The KafkaCluster does not exist any more: collect what is left of it."
        ),
    ] = False,
) -> None:
    """Write a support bundle: resources, events, logs, versions, and Kafka's state as the operator sees it. Contains no secrets."""
    with sentences():
        kube = Kube.connect(namespace)
        name = kube.one_cluster(cluster)
        if not deleted:
            _exists(kube, name)
        path = out or Path(f"spindle-report-{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
        bundle = Bundle(kube, name, Limits(lines, pods))
        try:
            count = write(path, path.name.removesuffix(".tar.gz"), bundle.files())
        except OSError as error:
            raise KubeError(f"cannot write {path}: {error.strerror}") from error
    say(f"{path}: {count} files, {path.stat().st_size / 1024:.0f} KiB")
    for problem in bundle.problems:
        say(f"not included: {problem}", err=True)


def _exists(kube: Kube, name: str) -> None:
    """Refuse a cluster that does not exist: its bundle would be nearly empty, and look like a whole one.

    Raises:
        KubeError: it does not exist. If it cannot be read, the bundle says so.
    """
    try:
        kube.raw("KafkaCluster", name)
    except NotFoundError as error:
        raise KubeError(
            f"{error}. To collect what a deleted one left: {command(f'spindle report {name} --deleted')}"
        ) from error
    except KubeError:
        return


def write(path: Path, folder: str, files: Iterable[tuple[str, bytes]]) -> int:
    """Write a new archive that only its owner can read; returns the number of files in it. If it is not finished, nothing is left of it."""
    count = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_OWNER)
    try:
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, content in files:
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(time.time()), _FOR_OWNER
                archive.addfile(entry, io.BytesIO(content))
                count += 1
    except BaseException:  # also Ctrl-C
        path.unlink(missing_ok=True)
        raise
    return count
