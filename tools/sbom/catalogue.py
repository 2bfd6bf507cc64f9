"""Finds the contents of an image: Debian packages, Python packages, jars, and programs installed without a package."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from email.parser import HeaderParser
from typing import Final

from tools.sbom.jars import KAFKA_GROUP, read_jar
from tools.sbom.layers import Image, ImageError
from tools.sbom.parts import Part

_OS_RELEASE: Final = re.compile(r"(etc|usr/lib)/os-release")
# Debian's package database, and the folder that images without dpkg have instead.
_DPKG: Final = re.compile(r"var/lib/dpkg/(status|status\.d/[^/]+)")
_PYTHON: Final = re.compile(r"(.*/)?[^/]+\.(dist-info/METADATA|egg-info/PKG-INFO|egg-info)")
_RECORD: Final = re.compile(r"(.*/)?[^/]+\.dist-info/RECORD")
_JAR: Final = re.compile(r".*\.(jar|war)")
_JAVA: Final = re.compile(r"(.*/)?release")
# Package lists that this tool cannot read: an image with one is an error, not an image without packages.
_FOREIGN: Final = re.compile(
    r"lib/apk/db/installed|(var/lib|usr/lib/sysimage)/rpm/.+|var/lib/pacman/local/.+"
)
_PYTHON_VERSION: Final = (
    "PYTHON_VERSION"  # set by the official Python images, where Python comes from no package
)


def catalogue(image: Image) -> list[Part]:
    """All parts found in the image, ordered by kind.

    Raises:
        ImageError: the image has packages of an unsupported kind, or nothing was found.
    """
    found: list[Part] = []
    releases: dict[str, Part] = {}
    records: dict[str, str] = {}
    try:
        for path, body in image.files(_wanted):
            if _FOREIGN.fullmatch(path):
                raise ImageError(
                    f"/{path} lists packages of an unsupported kind; only Debian packages are supported"
                )
            if _OS_RELEASE.fullmatch(path):
                releases[path] = _system(path, body)
            elif _RECORD.fullmatch(path):
                records[path.rpartition("/")[0]] = hashlib.sha256(body).hexdigest()
            else:
                found += _read(path, body)
    except tarfile.TarError as error:
        raise ImageError(f"a layer cannot be read: {error}") from error
    if not found:
        raise ImageError("the image contains no packages and no jars")
    found = [part.but(record=records.get(part.location.rpartition("/")[0], "")) for part in found]
    found += [releases[path] for path in sorted(releases)][:1]
    found += _kafka(found)
    if (version := image.environment.get(_PYTHON_VERSION)) is not None:
        found.append(Part("program", "python", version, f"${_PYTHON_VERSION}"))
    return sorted(found, key=lambda part: (part.kind, part.name, part.version, part.location))


def _wanted(path: str) -> bool:
    return any(
        pattern.fullmatch(path) for pattern in (_OS_RELEASE, _DPKG, _PYTHON, _RECORD, _JAR, _JAVA, _FOREIGN)
    )


def _read(path: str, body: bytes) -> Iterator[Part]:
    if _JAR.fullmatch(path):
        yield read_jar(path, body)
    elif _DPKG.fullmatch(path):
        yield from _debian(path, body)
    elif _PYTHON.fullmatch(path):
        told = HeaderParser().parsestr(body.decode(errors="replace"))
        if told["Name"]:
            yield Part("python", told["Name"], told["Version"] or "", path)
    else:
        yield from _java(path, body)


def _debian(path: str, body: bytes) -> Iterator[Part]:
    for paragraph in body.decode(errors="replace").split("\n\n"):
        told = HeaderParser().parsestr(paragraph.lstrip("\n"))
        if told["Package"] and (told["Status"] or " installed").endswith(" installed"):
            yield Part(
                "deb",
                told["Package"],
                told["Version"] or "",
                path,
                architecture=told["Architecture"] or "",
                source=(told["Source"] or "").partition(" ")[0],
            )


def _system(path: str, body: bytes) -> Part:
    told = _shell(body)
    return Part("os", told.get("ID", "linux"), told.get("VERSION_ID", ""), path)


def _java(path: str, body: bytes) -> Iterator[Part]:
    """A Java runtime, recognised by the file ``release`` in its top folder (JEP 223)."""
    told = _shell(body)
    if version := told.get("JAVA_RUNTIME_VERSION") or told.get("JAVA_VERSION"):
        yield Part("program", "openjdk", version, path)


def _shell(body: bytes) -> dict[str, str]:
    lines = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {key: value.strip("\"'") for key, _, value in lines}


def _kafka(found: list[Part]) -> Iterator[Part]:
    """Kafka as a whole, recognised by the jar of its broker."""
    for part in found:
        if (part.group, part.name) == (KAFKA_GROUP, "kafka-server"):
            yield Part("program", "kafka", part.version, part.location)
