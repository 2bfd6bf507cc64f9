"""The certificates of public authorities, from Debian's package, in the two forms that programs read."""

import hashlib
import ssl
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MAGIC: Final = 0xFEEDFEED  # of a Java key store of type JKS, version 2
_CERTIFICATE: Final = 2  # the kind of an entry
_PASSWORD: Final = "changeit"  # noqa: S105 - Java's own; it protects nothing, but is part of the file's check sum
_WHITENER: Final = b"Mighty Aphrodite"  # as above


def write_bundle(root: Path) -> None:
    """Write all certificates into one file, and let OpenSSL find it."""
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    target = root / "etc/ssl/certs/ca-certificates.crt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"".join(path.read_bytes() for path in certificates))
    link = root / "usr/lib/ssl/cert.pem"  # where Debian's OpenSSL looks
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/ssl/certs/ca-certificates.crt")


def write_java_store(base: Path, root: Path) -> None:
    """Write the same certificates as Java's trust store.

    Args:
        base: folder with Debian's package of certificates.
        root: where to write.
    """
    found = {path.stem: path.read_text() for path in (base / "usr/share/ca-certificates").rglob("*.crt")}
    target = root / "etc/ssl/certs/java/cacerts"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(java_store({name: ssl.PEM_cert_to_DER_cert(text) for name, text in found.items()}))


def java_store(certificates: Mapping[str, bytes]) -> bytes:
    """A Java key store (JKS) that trusts these certificates, by their names."""
    body = struct.pack(">III", _MAGIC, 2, len(certificates))
    for name in sorted(certificates):
        alias, content = name.lower().encode(), certificates[name]
        body += struct.pack(">IH", _CERTIFICATE, len(alias)) + alias + struct.pack(">Q", 0)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(content)) + content
    check = hashlib.sha1(_PASSWORD.encode("utf-16-be") + _WHITENER + body, usedforsecurity=False)
    return body + check.digest()
