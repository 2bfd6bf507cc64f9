"""Identifies a jar by its pom.properties, else by its manifest and file name."""

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Final

from tools.sbom.parts import Part

_POM: Final = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_MANIFEST: Final = "META-INF/MANIFEST.MF"
_NAME: Final = re.compile(r"(?P<artifact>.+?)-(?P<version>\d[\w.+-]*)")
# Kafka's jars contain no pom.properties; all of their classes are in Kafka's packages.
_KAFKA: Final = ("org/apache/kafka/", "kafka/")
KAFKA_GROUP: Final = "org.apache.kafka"


def read_jar(path: str, body: bytes) -> Part:
    """A jar with the parts that were shaded into it or are nested in it as jars.

    A jar that cannot be opened is listed by its name and hash.
    """
    stem = path.rpartition("/")[2].rpartition(".")[0]
    named = _NAME.fullmatch(stem)
    part = Part(
        kind="jar",
        name=named["artifact"] if named else stem,
        version=named["version"] if named else "",
        location=path,
        hashes=(("SHA-1", hashlib.sha1(body, usedforsecurity=False).hexdigest()), _sha256(body)),
    )
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as jar:
            return _opened(part, jar, stem)
    except zipfile.BadZipFile:
        return part


def _opened(part: Part, jar: zipfile.ZipFile, stem: str) -> Part:
    inside = [_of_pom(part.location, name, jar.read(name)) for name in jar.namelist() if _POM.fullmatch(name)]
    inside += [
        read_jar(f"{part.location}!/{name}", jar.read(name))
        for name in jar.namelist()
        if name.endswith(".jar")
    ]
    own = _own(stem, [each for each in inside if each.group])
    if own is not None:
        rest = tuple(each for each in inside if each is not own)
        return part.but(name=own.name, group=own.group, version=own.version, parts=rest)
    manifest = _manifest(jar)
    version = part.version or manifest.get("Implementation-Version", "") or manifest.get("Bundle-Version", "")
    return part.but(group=_group(part.name, jar, manifest), version=version, parts=tuple(inside))


def _own(stem: str, poms: list[Part]) -> Part | None:
    """The pom.properties of the jar itself, out of several: shaded parts have one too."""
    fitting = [each for each in poms if f"{stem}-".startswith(f"{each.name}-")]
    return max(
        fitting, key=lambda each: (stem == f"{each.name}-{each.version}", len(each.name)), default=None
    )


def _of_pom(jar: str, name: str, body: bytes) -> Part:
    lines = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    told = {key.strip(): value.strip() for key, _, value in lines}
    group, artifact = name.split("/")[2:4]
    return Part(
        kind="jar",
        name=told.get("artifactId", artifact),
        group=told.get("groupId", group),
        version=told.get("version", ""),
        location=f"{jar}!/{name}",
    )


def _manifest(jar: zipfile.ZipFile) -> Mapping[str, str]:
    try:
        text = jar.read(_MANIFEST).decode(errors="replace")
    except KeyError:
        return {}
    # A line that begins with a space continues the previous line (JAR File Specification).
    lines = (line.partition(": ") for line in re.sub(r"\r?\n ", "", text).splitlines())
    return {key: value for key, _, value in lines}


def _group(artifact: str, jar: zipfile.ZipFile, manifest: Mapping[str, str]) -> str:
    """The Maven group, only if certain: a wrong group would report another project's vulnerabilities."""
    bundle = manifest.get("Bundle-SymbolicName", "").partition(";")[0].strip()
    if bundle.endswith(f".{artifact}"):
        return bundle.removesuffix(f".{artifact}")
    classes = list(_classes(jar))
    if classes and all(name.startswith(_KAFKA) for name in classes):
        return KAFKA_GROUP
    return ""


def _classes(jar: zipfile.ZipFile) -> Iterator[str]:
    return (name for name in jar.namelist() if name.endswith(".class") and "/" in name)


def _sha256(body: bytes) -> tuple[str, str]:
    return "SHA-256", hashlib.sha256(body).hexdigest()
