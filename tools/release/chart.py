"""Packs the chart: like ``helm package``, but the same chart gives the same bytes."""

import gzip
import re
import tarfile
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
    # Helm reads Chart.yaml first.
    ordered = [("Chart.yaml", told.encode()), *sorted(files.items())]
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, body in ordered:
            if not name.startswith(".") or name == ".helmignore":
                add_bytes(archive, f"spindle/{name}", BytesIO(body), len(body))
