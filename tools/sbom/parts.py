"""Contents of an image, independent of the output format."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

Kind = Literal["os", "deb", "python", "jar", "program"]


@dataclass(frozen=True)
class Part:
    """A third-party part with a name and a version.

    Attributes:
        kind: ecosystem of the name (Debian, Python, Maven …).
        name, version: as used in that ecosystem; an empty version is unknown.
        group: Maven group of a jar; empty if it is not certain.
        location: path in the image of the part, or of the file that lists it.
        architecture: architecture of a Debian package.
        source: Debian source package from which it was built.
        hashes: algorithm and hex digest of the part's file.
        record: for a Python package, SHA-256 of its RECORD file, which lists the hashes of its files.
        parts: parts contained in this one.
    """

    kind: Kind
    name: str
    version: str
    location: str
    group: str = ""
    architecture: str = ""
    source: str = ""
    hashes: tuple[tuple[str, str], ...] = ()
    record: str = ""
    parts: tuple["Part", ...] = ()

    def but(self, **changes: Any) -> Self:
        """A copy with changed values."""
        return replace(self, **changes)
