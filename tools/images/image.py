"""Builds an image: its layers, its configuration and its OCI manifest."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from e2e.cluster.build import artefact
from e2e.cluster.paths import CHECKOUT
from tools.images import assemble
from tools.images.definition import BASE, PYTHON, SITE, USER, Definition
from tools.images.layers import compress, digest_of, write_layer

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_TAR: Final = "layer.tar"
_HERE: Final = Path(__file__).resolve().parent

Store = Callable[[str, str, Callable[[Path], None]], Path]


def cached(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """A store that keeps everything in the testbed's cache."""
    return artefact(name, "1", key, make)


@dataclass(frozen=True)
class Fresh:
    """A store that makes everything anew, once: within one build, names are unique.

    Attributes:
        folder: where.
    """

    folder: Path

    def __call__(self, name: str, key: str, make: Callable[[Path], None]) -> Path:  # noqa: ARG002 - as `cached`
        """The folder of one thing."""
        target = self.folder / name
        if not target.is_dir():
            target.mkdir(parents=True)
            make(target)
        return target


@dataclass(frozen=True)
class Builder:
    """Builds images.

    Attributes:
        checkout: with the code, pyproject.toml and requirements.lock.
        store: keeps the layers.
        exact: whether every package of Debian must be as in the lock file.
        packed: whether layers are compressed.
        version: of the code; as in pyproject.toml if empty.
        created: creation time of the images.
        labels: further labels of the images.
        say: is told which layer is made.
    """

    checkout: Path = CHECKOUT
    store: Store = cached
    exact: bool = False
    packed: bool = False
    version: str = ""
    created: datetime = _EPOCH
    labels: tuple[tuple[str, str], ...] = ()
    say: Callable[[str], None] = field(default=lambda _: None)

    def build(self, definition: Definition, architecture: str, folder: Path) -> None:
        """Write an image into a folder: its manifest as manifest.json, and its blobs, each named by its SHA-256."""
        layers = self.layers(definition, architecture)
        config = _json(self._config(definition, architecture, [digest_of(each) for each in layers]))
        name = hashlib.sha256(config).hexdigest()
        (folder / name).write_bytes(config)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": f"sha256:{name}", "size": len(config)},
            "layers": [self._blob(each, folder) for each in layers],
        }
        (folder / "manifest.json").write_bytes(_json(manifest))

    def layers(self, definition: Definition, architecture: str) -> list[Path]:
        """The layers of an image as uncompressed archives, lowest first."""
        return [path / _TAR for path in self._layers(definition, architecture)]

    def _layers(self, definition: Definition, architecture: str) -> list[Path]:
        files = self._base(architecture)
        host = self._base(assemble.host_architecture())
        image, common = definition.name, _digest(_HERE) + files.name + host.name
        found = [self._layer(f"{BASE}-{architecture}", common, lambda to: _hand_over(files, to))]

        if definition.packages:
            found.append(
                self._layer(
                    f"{image}-debian-{architecture}",
                    common,
                    lambda to: assemble.additional(definition, files, to, architecture, exact=self.exact),
                )
            )

        def wheels(to: Path) -> None:
            assemble.wheels(definition, to, architecture, self.checkout)
            assemble.compile_all(host, to, SITE, self._compiled())

        wanted = assemble.requirements(definition, self.checkout)
        found.append(self._layer(f"{image}-wheels-{architecture}", common + wanted, wheels))
        if definition.jmx:
            found.append(self._layer(f"{image}-jmx", _digest(_HERE), assemble.jmx))

        def code(to: Path) -> None:
            assemble.code(definition, to, self.checkout, self.version)
            assemble.compile_all(host, to, SITE, self._compiled())

        names = (*definition.sources, "pyproject.toml", "README.md", "LICENSE")
        sources = "".join(_digest(self.checkout / name) for name in names)
        found.append(self._layer(f"{image}-code", common + self.version + sources, code))
        return found

    def _base(self, architecture: str) -> Path:
        """The files of the shared layer."""

        def make(to: Path) -> None:
            self.say(f"Debian and Python, {architecture}")
            assemble.base(to, architecture, exact=self.exact)
            host = assemble.host_architecture()
            root = to if architecture == host else self._base(host)
            assemble.compile_all(root, to, f"usr/lib/python{PYTHON}", self._compiled())

        return self.store(f"files-{BASE}-{architecture}", _hash(f"{_digest(_HERE)}{self.exact}"), make)

    def _compiled(self) -> Path:
        """Folder of compiled Python files."""
        return self.store("compiled", _hash(f"{_digest(_HERE)}{self.exact}"), lambda _: None)

    def _layer(self, name: str, inputs: str, fill: Callable[[Path], None]) -> Path:
        """Folder of one layer's archive."""

        def make(to: Path) -> None:
            self.say(f"layer {name}")
            files = to / "files"
            files.mkdir()
            fill(files)
            write_layer(files, to / _TAR)
            shutil.rmtree(files)

        return self.store(f"layer-{name}", _hash(f"{inputs}{self.exact}"), make)

    def _blob(self, layer: Path, folder: Path) -> dict[str, Any]:
        """Put a layer into an image's folder; returns its descriptor."""
        source, kind = layer, _LAYER
        if self.packed:
            source, kind = layer.with_suffix(".tar.gz"), f"{_LAYER}+gzip"
            if not source.exists():
                self.say(f"compressing {layer.parent.name}")
                compress(layer, source)
        digest = digest_of(source)
        target = folder / digest
        if not target.exists():
            target.hardlink_to(source)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": source.stat().st_size}

    def _config(self, definition: Definition, architecture: str, diff_ids: list[str]) -> dict[str, Any]:
        labels = {"org.opencontainers.image.title": definition.title, **dict(self.labels)}
        if self.version:
            labels["org.opencontainers.image.version"] = self.version
        process: dict[str, Any] = {
            "User": f"{USER}:{USER}",
            "Env": list(definition.environment),
            "WorkingDir": "/",
            "Labels": labels,
        }
        if definition.entrypoint:
            process["Entrypoint"] = list(definition.entrypoint)
        process["Cmd"] = list(definition.command)
        return {
            "created": self.created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "architecture": architecture,
            "os": "linux",
            "config": process,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in diff_ids]},
        }


def _hand_over(files: Path, to: Path) -> None:
    """Put the files of the shared layer, which others need too, into the folder of the layer as links."""
    shutil.copytree(files, to, symlinks=True, dirs_exist_ok=True, copy_function=_hard)


def _hard(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(path: Path) -> str:
    """Digest of a file, or of the names and contents of a folder's files, without Python's cache."""
    if path.is_file():
        return digest_of(path)
    names = sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
    return _hash("".join(f"{each.relative_to(path)}\0{digest_of(each)}\0" for each in names))
