"""What an image consists of, before it is written down in any format."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

Kind = Literal["os", "deb", "python", "jar", "program"]


@dataclass(frozen=True)
class Part:
    """Something that was made elsewhere, with a name and a version.

    Attributes:
        kind: which ecosystem knows it by this name.
        name, version: as that ecosystem has them; an empty version is not known.
        group: of a jar Maven's group; empty where nothing says it for certain.
        location: where in the image it is told, or it is itself.
        architecture: of a Debian package.
        source: the Debian source package it is built from.
        hashes: algorithm and hex digest of the file that it is.
        record: SHA-256 of the list with the hashes of its files, of a Python package.
        parts: what is in it.
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
        """The same with other values."""
        return replace(self, **changes)
