"""Debian's packages of the images: pinned by version and checksum in ``debian.lock``, fetched with apt-get, unpacked without running their scripts.

``python -m tools.images.debian`` writes the lock file anew, from the newest versions that apt has on this machine.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from e2e.cluster.build import BuildError, locked, run
from e2e.cluster.console import say
from e2e.cluster.paths import cache_dir
from tools.images.definition import ARCHITECTURES, BASE, BASE_PACKAGES, DEFINITIONS, LEFT_OUT, SUITE

LOCK: Final = Path(__file__).with_name("debian.lock")
_HEAD: Final = (
    f"# Packages of Debian {SUITE}: image, architecture, name, version, SHA-256. Written by `make lock`.\n"
)
_MERGED: Final = (
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
)  # links to the folder below usr (Debian's "usrmerge")
_DATABASE: Final = "var/lib/dpkg/status.d"  # of images without dpkg; scanners of images read it
_SOURCES: Final = Path("/etc/apt/sources.list.d")


_ROOTS: Final = {BASE: BASE_PACKAGES, **{each.name: each.packages for each in DEFINITIONS.values()}}


class LockError(ValueError):
    """The lock file cannot be used, or a package cannot be had as it says."""


@dataclass(frozen=True)
class Package:
    """One package of one layer.

    Attributes:
        image: which has it, or `BASE` for all.
        sha256: of the package's file.
    """

    image: str
    architecture: str
    name: str
    version: str
    sha256: str


def read(text: str) -> list[Package]:
    """The packages of a lock file.

    Raises:
        LockError: a line has not five words.
    """
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    for words in lines:
        if len(words) != 5:
            raise LockError(
                f"{LOCK.name}: {' '.join(words)!r} is not image, architecture, name, version and SHA-256"
            )
    return [Package(*words) for words in lines]


def packages_of(image: str, architecture: str) -> list[Package]:
    """The locked packages of a layer.

    Args:
        image: name of a definition, or `BASE`.
        architecture: Debian's name of it.

    Raises:
        LockError: one that the definition names is not among them.
    """
    found = [
        each for each in read(LOCK.read_text()) if (each.image, each.architecture) == (image, architecture)
    ]
    if missing := set(_ROOTS[image]) - {each.name for each in found}:
        raise LockError(f"{LOCK.name} lacks {', '.join(sorted(missing))} for {architecture}: run `make lock`")
    return found


def closure(wanted: Iterable[str], about: Mapping[str, str], left_out: Iterable[str]) -> set[str]:
    """Names of packages with all that they depend on.

    Args:
        wanted: names to start from.
        about: name → its fields Pre-Depends and Depends, joined by a comma.
        left_out: names that are not followed.

    Raises:
        LockError: no alternative of a dependency is known.
    """
    skipped, found, left = set(left_out), set[str](), list(wanted)
    while left:
        name = left.pop()
        if name in found or name in skipped:
            continue
        if name not in about:
            raise LockError(f"Debian {SUITE} has no package {name}")
        found.add(name)
        for clause in filter(None, (part.strip() for part in about[name].split(","))):
            choices = [re.split(r"[ (:]", each.strip(), maxsplit=1)[0] for each in clause.split("|")]
            if not any(choice in found or choice in skipped for choice in choices):
                known = [choice for choice in choices if choice in about]
                if not known:
                    raise LockError(f"{name} needs {clause}, which Debian {SUITE} does not have")
                left.append(known[0])
    return found


def fetch(packages: Sequence[Package], *, exact: bool) -> list[Path]:
    """Files of packages, from the cache or by apt-get.

    Args:
        packages: of one architecture.
        exact: whether each must be as in the lock file; if not, the newest version may replace one that mirrors no longer have.

    Raises:
        LockError: one cannot be had with that checksum.
    """
    store = cache_dir() / "debs"
    store.mkdir(parents=True, exist_ok=True)
    if exact:  # what a machine that lost power has left
        for damaged in (each for each in packages if not _is_whole(store / each.sha256, each.sha256)):
            (store / damaged.sha256).unlink(missing_ok=True)
    if missing := [each for each in packages if not (store / each.sha256).is_file()]:
        with locked("debs"):
            _fetch(missing, store, exact=exact)
    found = [store / each.sha256 for each in packages]
    for index, path in enumerate(found):
        if not path.is_file():  # replaced
            found[index] = store / _newest(packages[index])
    return found


def _is_whole(file: Path, sha256: str) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256


def unpack(packages: Iterable[Path], folder: Path, without: Sequence[str]) -> None:
    """Unpack packages into a folder, and list them in the image's package database.

    Args:
        without: patterns of paths that are left out.
    """
    for name in (*_MERGED[:3], "lib64"):
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"usr/{name}")
    database = folder / _DATABASE
    database.mkdir(parents=True, exist_ok=True)
    for package in packages:
        with tarfile.open(fileobj=BytesIO(_dpkg("--fsys-tarfile", package))) as files:
            for entry in files:
                path = _merged(entry.name)
                if path and not _matches(path, without):
                    _extract(files, entry, folder, path)
        control = _dpkg("--field", package)
        (database / _dpkg("--field", package, "Package").decode().strip()).write_bytes(control)


def _merged(name: str) -> str:
    """A path in a package as it is below the image's root, where /bin and the like are links; empty for the root."""
    path = name.removeprefix("./").rstrip("/")
    return f"usr/{path}" if path.partition("/")[0] in _MERGED else path


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def _extract(files: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, path: str) -> None:
    target = folder / path
    if entry.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.issym():
        target.unlink(missing_ok=True)
        target.symlink_to(entry.linkname)
    elif entry.islnk():
        target.unlink(missing_ok=True)
        target.hardlink_to(folder / _merged(entry.linkname))
    elif (body := files.extractfile(entry)) is not None:
        target.write_bytes(body.read())
        target.chmod(0o755 if entry.mode & 0o100 else 0o644)


def _dpkg(option: str, package: Path, *more: str) -> bytes:
    done = subprocess.run(["dpkg-deb", option, package, *more], capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"dpkg-deb {option} {package}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


class _Apt:
    """apt with package lists of its own, for one architecture; what is installed on this machine does not matter."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.folder = cache_dir() / f"apt-{architecture}"
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """Run apt-get or apt-cache."""
        at = self.folder
        settings = {
            "Dir::State": at,
            "Dir::State::lists": at / "lists",
            "Dir::State::status": at / "status",
            "Dir::Cache": at / "cache",
            "APT::Architecture": self.architecture,
            "APT::Architectures::": self.architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            **self._sources(),
        }
        options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
        return run(f"Debian's packages for {self.architecture}", program, *options, *arguments, cwd=cwd)

    def _sources(self) -> dict[str, object]:
        """Where Debian's own mirrors stand in a file of theirs, the lists of others are not fetched."""
        own = _SOURCES / "debian.sources"
        return {"Dir::Etc::SourceParts": "/dev/null", "Dir::Etc::SourceList": own} if own.is_file() else {}

    def update(self) -> None:
        """Fetch the package lists."""
        say(f"Debian {SUITE}, {self.architecture}: fetching the package lists")
        self.run("apt-get", "update", "-qq")

    def newest(self) -> dict[str, dict[str, str]]:
        """Name → fields of the newest version of each package."""
        # apt's preference for versions: dumpavail shows the candidate of each package.
        found: dict[str, dict[str, str]] = {}
        for paragraph in self.run("apt-cache", "dumpavail").split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", paragraph, re.MULTILINE))
            if fields.get("Architecture") in (self.architecture, "all"):
                found[fields["Package"]] = fields
        return found


def _fetch(packages: Sequence[Package], store: Path, *, exact: bool) -> None:
    apt = _Apt(packages[0].architecture)
    apt.update()
    say(f"Debian {SUITE}, {apt.architecture}: fetching {len(packages)} packages")
    part = store / f"part-{os.getpid()}"
    part.mkdir()
    try:
        try:
            asked = [f"{each.name}={each.version}" for each in packages]
            apt.run("apt-get", "download", "-qq", *asked, cwd=part)
        except BuildError as error:
            if exact:
                raise LockError(
                    f"a package for {apt.architecture} is not to be had as {LOCK.name} says. Mirrors keep the newest version only: "
                    f"renew the lock file with `make lock`, or let apt use a snapshot of Debian that has it.\n{error}"
                ) from error
            say(
                f"packages for {apt.architecture} are not to be had as {LOCK.name} says, taking the newest: renew it with `make lock`"
            )
            apt.run("apt-get", "download", "-qq", *(each.name for each in packages), cwd=part)
        found = {path.name.partition("_")[0]: path for path in part.glob("*.deb")}
        for package in packages:
            _keep(package, found[package.name], store, exact=exact)
    finally:
        shutil.rmtree(part)


def _keep(package: Package, file: Path, store: Path, *, exact: bool) -> None:
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found == package.sha256:
        file.rename(store / found)
        return
    version = _dpkg("--field", file, "Version").decode().strip()
    if exact or version == package.version:
        raise LockError(
            f"{package.name} {version} has the SHA-256 {found}, and {LOCK.name} says {package.sha256}"
        )
    file.rename(store / _newest(package))


def _newest(package: Package) -> str:
    """Name in the cache of what replaces a package that mirrors no longer have."""
    return f"instead-of-{package.sha256}"


def lock() -> str:
    """The text of a new lock file."""
    found: list[Package] = []
    for architecture in ARCHITECTURES:
        apt = _Apt(architecture)
        apt.update()
        newest = apt.newest()
        about = {
            name: f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}"
            for name, fields in newest.items()
        }
        base = closure(BASE_PACKAGES, about, LEFT_OUT)
        for image, roots in _ROOTS.items():
            names = base if image == BASE else closure(roots, about, {*LEFT_OUT, *base})
            found += [
                Package(image, architecture, name, newest[name]["Version"], newest[name]["SHA256"])
                for name in sorted(names)
            ]
    lines = (f"{each.image} {each.architecture} {each.name} {each.version} {each.sha256}\n" for each in found)
    return _HEAD + "".join(lines)


def main() -> int:
    """Write the lock file."""
    try:
        text = lock()
    except (BuildError, LockError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    LOCK.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
