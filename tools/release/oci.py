"""Writes images of several architectures as one OCI image layout in a tar archive, which skopeo, crane, oras and containerd read."""

import hashlib
import json
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from tools.images.image import MANIFEST
from tools.images.layers import add_bytes

INDEX: Final = "application/vnd.oci.image.index.v1+json"


def write_layout(images: Mapping[str, Path], version: str, target: Path) -> str:
    """Write the layout.

    Args:
        images: architecture → folder of its image, with manifest.json and its blobs.
        version: the tag under which tools find it.
        target: the archive.

    Returns:
        Digest of the image index, by which all architectures are pulled: ``sha256:…``.
    """
    blobs: dict[str, Path | bytes] = {}
    manifests: list[dict[str, Any]] = []
    for architecture, folder in sorted(images.items()):
        manifest = (folder / "manifest.json").read_bytes()
        descriptor = _descriptor(manifest, MANIFEST) | {
            "platform": {"architecture": architecture, "os": "linux"}
        }
        manifests.append(descriptor)
        blobs[_name(descriptor)] = manifest
        told = json.loads(manifest)
        blobs |= {name: folder / name for name in map(_name, (told["config"], *told["layers"]))}
    index = _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
    top = _descriptor(index, INDEX) | {"annotations": {"org.opencontainers.image.ref.name": version}}
    blobs[_name(top)] = index
    with (
        target.open("wb") as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]}))
        for name, blob in sorted(blobs.items()):
            _add(archive, f"blobs/sha256/{name}", blob)
    return str(top["digest"])


def _add(archive: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    if isinstance(content, bytes):
        add_bytes(archive, name, BytesIO(content), len(content))
    else:
        with content.open("rb") as body:
            add_bytes(archive, name, body, content.stat().st_size)


def _descriptor(content: bytes, kind: str) -> dict[str, Any]:
    return {
        "mediaType": kind,
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "size": len(content),
    }


def _name(descriptor: Mapping[str, Any]) -> str:
    return str(descriptor["digest"]).removeprefix("sha256:")


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
