"""Packs the chart, like ``helm package``, and the examples: the same files give the same bytes."""

import gzip
import re
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from tools.images.layers import add_bytes


def pack(chart: Path, version: str, target: Path) -> None:
    """Write the chart's archive.

    Args:
        chart: its folder.
        version: of the chart, and its appVersion, which is the images' tag.
        target: the archive.
    """
    files = {str(path.relative_to(chart)): path.read_bytes() for path in chart.rglob("*") if path.is_file()}
    told = files.pop("Chart.yaml").decode()
    for key in ("version", "appVersion"):
        told, found = re.subn(rf"(?m)^{key}: .*$", f'{key}: "{version}"', told)
        if found != 1:
            raise ValueError(f"Chart.yaml has {found} lines with {key}")
    kept = {n: body for n, body in sorted(files.items()) if not n.startswith(".") or n == ".helmignore"}
    # Helm reads Chart.yaml first.
    write_archive(
        {f"spindle/{name}": body for name, body in {"Chart.yaml": told.encode(), **kept}.items()}, target
    )


def write_archive(files: Mapping[str, bytes], target: Path) -> None:
    """Write a gzipped tar archive that depends on nothing but its content.

    Args:
        files: content by path, in their order.
        target: the archive.
    """
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, body in files.items():
            add_bytes(archive, name, BytesIO(body), len(body))
