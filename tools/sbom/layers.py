"""Reads the files of an image from its layers: from a local build, or from an archive of ``docker save`` or ``podman save``."""

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

# Marks of a layer for deleted files of lower layers (OCI image specification, "Whiteouts").
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_EPOCH: Final = "1970-01-01T00:00:00Z"


class ImageError(ValueError):
    """An image that cannot be read; the message says why."""


@dataclass(frozen=True)
class Image:
    """An image and its layers.

    Attributes:
        digest: SHA-256 of its configuration (the image ID).
        created: creation time according to its configuration.
        environment: environment variables of its processes.
        layers: functions that each open one layer, lowest first.
    """

    digest: str
    created: datetime
    environment: dict[str, str]
    layers: tuple[Callable[[], IO[bytes]], ...]

    def files(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
        """Path (without a leading slash) and content of the wanted regular files, layer by layer."""
        places = self._places(wanted)
        for number in sorted({layer for layer, _ in places.values()}):
            paths = {member: path for path, (layer, member) in places.items() if layer == number}
            with tarfile.open(fileobj=self.layers[number](), mode="r:*") as layer:
                for entry in layer:
                    path = paths.get(entry.name)
                    if path is not None and (body := layer.extractfile(entry)) is not None:
                        yield path, body.read()

    def _places(self, wanted: Callable[[str], bool]) -> dict[str, tuple[int, str]]:
        """Path → layer and name in it, for the files that remain when all layers are merged."""
        places: dict[str, tuple[int, str]] = {}
        for number, opened in enumerate(self.layers):
            hidden: set[str] = set()  # in lower layers: these paths and everything under them
            emptied: set[str] = set()  # only what is under these paths
            found: dict[str, tuple[int, str]] = {}
            with tarfile.open(fileobj=opened(), mode="r:*") as layer:
                for entry in layer:
                    path = PurePosixPath("/", entry.name).relative_to("/")
                    if path.name == _OPAQUE:
                        emptied.add(str(path.parent))
                    elif path.name.startswith(_WHITEOUT):
                        hidden.add(str(path.with_name(path.name.removeprefix(_WHITEOUT))))
                    elif not entry.isdir():
                        hidden.add(str(path))
                        if (entry.isreg() or entry.islnk()) and wanted(str(path)):
                            found[str(path)] = (number, entry.name)
            places = {path: place for path, place in places.items() if not _gone(path, hidden, emptied)}
            places |= found
        return places


def _gone(path: str, hidden: set[str], emptied: set[str]) -> bool:
    above = {str(parent) for parent in PurePosixPath(path).parents}
    return path in hidden or bool(above & (hidden | emptied))


@contextmanager
def open_image(path: Path) -> Iterator[Image]:
    """Open an image from a folder of blobs with an OCI manifest, or from an archive of ``docker save``.

    Raises:
        ImageError: the path is neither.
    """
    with ExitStack() as open_for_now:
        try:
            if path.is_dir():
                yield _of_folder(path)
            else:
                yield _of_archive(open_for_now.enter_context(tarfile.open(path)))
        except (OSError, KeyError, ValueError, tarfile.TarError) as error:
            if isinstance(error, ImageError):
                raise
            raise ImageError(f"{path} is not a readable image: {error}") from error


def _of_folder(folder: Path) -> Image:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))

    def blob(descriptor: dict[str, Any]) -> Path:
        return folder / str(descriptor["digest"]).removeprefix("sha256:")

    def opener(of: Path) -> Callable[[], IO[bytes]]:
        return lambda: of.open("rb")

    layers = tuple(opener(blob(each)) for each in manifest["layers"])
    return _image(blob(manifest["config"]).read_bytes(), layers)


def _of_archive(archive: tarfile.TarFile) -> Image:
    def member(name: str) -> IO[bytes]:
        found = archive.extractfile(name)
        if found is None:
            raise ImageError(f"{name} in the archive is not a file")
        return found

    manifests = json.loads(member("manifest.json").read())
    if len(manifests) != 1:
        raise ImageError(f"the archive holds {len(manifests)} images; save one at a time")

    def opener(name: str) -> Callable[[], IO[bytes]]:
        return lambda: member(name)

    layers = tuple(opener(name) for name in manifests[0]["Layers"])
    return _image(member(manifests[0]["Config"]).read(), layers)


def _image(config: bytes, layers: tuple[Callable[[], IO[bytes]], ...]) -> Image:
    told = json.loads(config)
    environment = (each.partition("=") for each in (told.get("config") or {}).get("Env") or ())
    # datetime does not accept nanoseconds.
    seconds = str(told.get("created") or _EPOCH)[:19]
    return Image(
        digest=hashlib.sha256(config).hexdigest(),
        created=datetime.fromisoformat(seconds).replace(tzinfo=UTC),
        environment={name: value for name, _, value in environment},
        layers=layers,
    )
