"""``python -m tools.release VERSION`` makes a release from the last commit; ``make release VERSION=…`` calls it."""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from e2e.cluster import versions
from e2e.cluster.build import BuildError
from e2e.cluster.console import say
from e2e.cluster.debian import MissingProgramError
from e2e.cluster.paths import CHECKOUT
from tools.images.assemble import wheel
from tools.images.debian import LockError
from tools.images.definition import ARCHITECTURES, DEFINITIONS
from tools.images.image import Builder, Fresh
from tools.images.layers import digest_of
from tools.release.chart import pack, write_archive
from tools.release.oci import write_layout
from tools.sbom.__main__ import document

OUT: Final = CHECKOUT / "dist"
SUMS: Final = "SHA256SUMS"
IMAGES: Final = "images.txt"
# Semantic versioning without build metadata, whose "+" no tag of an image may have.
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-(alpha|beta|rc)\.{_NUMBER})?"
)  # pre-releases as Python knows them, too


class ReleaseError(RuntimeError):
    """No release can be made; the message says why and what to do."""


def checked(version: str) -> str:
    """A version that image tags, the chart and Python's package can have.

    Raises:
        ReleaseError: it is another text.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(
            f"VERSION={version or '(empty)'} is not a version: write three numbers, for example 1.2.3, or a pre-release of one, "
            "1.2.3-rc.1 (alpha, beta, rc)"
        )
    return version


def make(version: str, out: Path, work: Path, checkout: Path = CHECKOUT) -> None:
    """Make all files of a release.

    Args:
        version: without a "v".
        out: folder for the files. Until all of them are made, it stays as it is; then what it contained is gone.
        work: folder for what is deleted afterwards, in the same file system; a few gigabytes.
        checkout: whose last commit is released.

    Raises:
        ReleaseError: there is no commit, or another process has made the same version meanwhile.
    """
    commit, created = _commit(checkout)
    source = work / "source"
    _export(checkout, commit, source)
    files = work / "release"
    files.mkdir(parents=True)
    labels = (("org.opencontainers.image.revision", commit),)
    builder = Builder(
        source, Fresh(work), exact=True, packed=True, version=version, created=created, labels=labels, say=say
    )
    lines = []
    for definition in DEFINITIONS.values():
        images = {}
        for architecture in ARCHITECTURES:
            images[architecture] = work / f"image-{definition.name}-{architecture}"
            images[architecture].mkdir()
            say(f"image {definition.name}, {architecture}")
            builder.build(definition, architecture, images[architecture])
            bill = files / f"{definition.name}-{version}-{architecture}.cdx.json"
            bill.write_text(document(images[architecture], definition.name, version), encoding="utf-8")
        digest = write_layout(images, version, files / f"{definition.name}-{version}.oci.tar")
        lines.append(f"{definition.name}:{version}@{digest}\n")
    lines += [f"apache/kafka:{each}\n" for each in versions.KAFKA_RELEASES]
    (files / IMAGES).write_text("".join(lines))
    pack(source / "charts/spindle", version, files / f"spindle-{version}.tgz")
    packages = sorted({each for definition in DEFINITIONS.values() for each in definition.sources})
    wheel(packages, work / "wheel", source, version, to=files)
    write_archive(_examples(source), files / f"examples-{version}.tar.gz")
    made = sorted(files.iterdir())
    (files / SUMS).write_text("".join(f"{digest_of(path)}  {path.name}\n" for path in made))
    if out.exists():
        shutil.rmtree(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        files.rename(out)
    except OSError as error:  # not empty: somebody else makes the same version
        raise ReleaseError(
            f"{out} cannot be written: {error.strerror}. Make one release of a version at a time"
        ) from error


def _examples(source: Path) -> dict[str, bytes]:
    """The files of examples/, by path."""
    found = (path for path in sorted((source / "examples").rglob("*")) if path.is_file())
    return {str(path.relative_to(source)): path.read_bytes() for path in found}


def _commit(checkout: Path) -> tuple[str, datetime]:
    """Id and time of the last commit."""
    commit, _, seconds = (
        _git(checkout, "log", "-1", "--no-show-signature", "--format=%H %ct").decode().strip().partition(" ")
    )
    if _git(checkout, "status", "--porcelain").strip():
        say("what is not committed is not in the release")
    return commit, datetime.fromtimestamp(int(seconds), UTC)


def _export(checkout: Path, commit: str, folder: Path) -> None:
    """Unpack the files of a commit. Whose checkout it is says nothing about line ends and modes."""
    settings = ("-c", "core.autocrlf=false", "-c", "core.eol=lf", "-c", "tar.umask=0022")
    with tarfile.open(fileobj=BytesIO(_git(checkout, *settings, "archive", commit))) as archive:
        archive.extractall(folder, filter="data")


def _git(checkout: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", checkout, *arguments], capture_output=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"a release is made from a commit: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _compare(first: Path, second: Path) -> list[str]:
    """Names of files whose check sums differ."""
    sums = [set((folder / SUMS).read_text().splitlines()) for folder in (first, second)]
    return sorted({line.split()[1] for line in sums[0] ^ sums[1]})


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="release", description="Make the files of a release from the last commit."
    )
    parser.add_argument("version", nargs="?", default="", help="1.2.3, or 1.2.3-rc.1")
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        help=f"they come into a folder with the version in this one (default: {OUT.name})",
    )
    parser.add_argument("--check", action="store_true", help="make them twice, and fail if any file differs")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        version = checked(options.version)
        out = options.out / version
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent, prefix=".work-") as work:
            make(version, out, Path(work))
        if options.check:
            say("once more, in another folder")
            with TemporaryDirectory(prefix="spindle-release-") as work:
                again = Path(work) / "again"
                make(version, again, Path(work))
                if differing := _compare(out, again):
                    raise ReleaseError(f"made twice, these files differ: {', '.join(differing)}")  # noqa: TRY301
            say("made twice: all files are the same")
    except (BuildError, LockError, MissingProgramError, ReleaseError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:9.1f} MB  {path}")
    print(f"release {version}: {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
