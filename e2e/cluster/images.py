"""Container images: Spindle's own are assembled as in a release (tools/images), the others built with buildah on a root file system created by debootstrap.

No registry is used. Layers are kept in the cache, so a change of code costs seconds. Built images are stored as
plain files in the cache; nodes import an archive without the parts that they have already.
"""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from e2e.cluster import versions
from e2e.cluster.build import (
    artefact,
    artefact_path,
    ensure_alertmanager,
    ensure_discovering_prometheus,
    ensure_kafka_libs,
    ensure_monitoring,
    ensure_pause,
    locked,
    run,
)
from e2e.cluster.console import say
from e2e.cluster.debian import ensure_programs
from e2e.cluster.layout import (
    KAFKA_IMAGE,
    MONITORING_IMAGE,
    PAUSE_IMAGE,
    REBALANCE_IMAGE,
    SPINDLE_IMAGE,
)
from e2e.cluster.paths import CHECKOUT, cache_dir, remove_orphans
from tools.images.assemble import host_architecture
from tools.images.definition import BASE, REBALANCE, SPINDLE, SUITE, Definition
from tools.images.image import Builder

_RELEASE: Final = SUITE
_DOCKERFILES: Final = CHECKOUT / "e2e" / "images"
# Inputs of Spindle's images, relative to the checkout, besides the folders with its code.
_INPUTS: Final = ("pyproject.toml", "requirements.lock", "README.md", "LICENSE")
_ASSEMBLER: Final = CHECKOUT / "tools" / "images"


@dataclass(frozen=True)
class Image:
    """A built image.

    Attributes:
        name: as in manifests.
        folder: its OCI manifest, as manifest.json, and its blobs, each named by its SHA-256.
    """

    name: str
    folder: Path

    def blobs(self) -> list[str]:
        """SHA-256 of its configuration and of each layer."""
        manifest = json.loads((self.folder / "manifest.json").read_text())
        return [each["digest"].removeprefix("sha256:") for each in (manifest["config"], *manifest["layers"])]

    def write_archive(self, target: IO[bytes], without: Collection[str] = ()) -> None:
        """Write an OCI archive, for ``ctr images import``.

        Args:
            target: path of the archive.
            without: SHA-256 of the blobs that the importer has already.
        """
        manifest = (self.folder / "manifest.json").read_bytes()
        digest = hashlib.sha256(manifest).hexdigest()
        descriptor = {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": f"sha256:{digest}",
            "size": len(manifest),
            "annotations": {"io.containerd.image.name": self.name},
        }
        index = {"schemaVersion": 2, "manifests": [descriptor]}
        with tarfile.open(fileobj=target, mode="w|") as archive:
            _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
            _add(archive, "index.json", json.dumps(index).encode())
            _add(archive, f"blobs/sha256/{digest}", manifest)
            for blob in self.blobs():
                if blob not in without:
                    archive.add(self.folder / blob, arcname=f"blobs/sha256/{blob}")


def ensure_images() -> list[Image]:
    """All images of a node, built if necessary; Spindle's own is the last."""
    return [ensure_pause_image(), ensure_kafka_image(), ensure_spindle_image()]


def ensure_pause_image() -> Image:
    """The image of the container that holds a pod's namespaces."""
    program = ensure_pause()
    key = _digest(program, _DOCKERFILES / "pause")

    def make(folder: Path) -> None:
        _build(PAUSE_IMAGE, _DOCKERFILES / "pause" / "Dockerfile", program.parent, folder)

    return Image(PAUSE_IMAGE, artefact("image-pause", "1", key, make))


def ensure_kafka_image(version: str = versions.KAFKA) -> Image:
    """Kafka's image."""
    name = KAFKA_IMAGE.format(version=version)
    libs = ensure_kafka_libs(version)
    key = _digest(_DOCKERFILES / "kafka", text=f"{libs.parent.name} {_RELEASE}")

    def make(folder: Path) -> None:
        own = _DOCKERFILES / "kafka"
        more = (f"--build-arg=BASE={_debian()}", f"--build-context=scripts={own}")
        _build(name, own / "Dockerfile", libs.parent, folder, *more)

    return Image(name, artefact("image-kafka", version, key, make))


def ensure_spindle_image(checkout: Path = CHECKOUT, name: str = SPINDLE_IMAGE) -> Image:
    """The image of operator, agent and command line, from the current state of a checkout."""
    return _assembled(SPINDLE, name, checkout)


def ensure_rebalance_image() -> Image:
    """The image of the rebalance job, from the current state of the checkout. It is large, so it is built only on request."""
    return _assembled(REBALANCE, REBALANCE_IMAGE, CHECKOUT)


def rebalance_image_is_built() -> bool:
    """Whether `ensure_rebalance_image` finds it in the cache."""
    name, tag, key = _place(REBALANCE, REBALANCE_IMAGE, CHECKOUT)
    return artefact_path(name, tag, key).is_dir()


def _place(definition: Definition, name: str, checkout: Path) -> tuple[str, str, str]:
    """Name, tag and key of an image's artefact."""
    key = _digest(*(checkout / each for each in (*_INPUTS, *definition.sources)), _ASSEMBLER)
    return f"image-{definition.name}", name.rpartition(":")[2], key


def _assembled(definition: Definition, name: str, checkout: Path) -> Image:
    stem, tag, key = _place(definition, name, checkout)
    builder = Builder(checkout)

    def make(folder: Path) -> None:
        say(f"assembling image {name}")
        builder.build(definition, host_architecture(), folder)

    folder = artefact(stem, tag, key, make)
    forget_old(f"{stem}-{tag}-*", folder, keep=2)
    # Of the code there is a new layer with every change; images that are kept have their own links to the files.
    names = (
        f"layer-{definition.name}-code",
        f"layer-{definition.name}-wheels-*",
        f"files-{BASE}-*",
        "compiled",
    )
    for each in names:
        forget_old(f"{each}-1-*", folder, keep=3)
    return Image(name, folder)


def ensure_monitoring_image() -> Image:
    """The image of Prometheus, its config reloader, Alertmanager, node_exporter and kube-state-metrics. Built only on request."""
    folders = {
        "operator": ensure_monitoring(),
        "prometheus": ensure_discovering_prometheus(),
        "debian": ensure_alertmanager(),
    }
    dockerfile = _DOCKERFILES / "monitoring" / "Dockerfile"
    names = " ".join(str(folder) for folder in folders.values())  # each has the digest of its inputs
    key = _digest(dockerfile, text=f"{names} {_RELEASE}")

    def make(folder: Path) -> None:
        contexts = (f"--build-context={name}={path}" for name, path in folders.items())
        base = f"--build-arg=BASE={_debian()}"
        _build(MONITORING_IMAGE, dockerfile, dockerfile.parent, folder, base, *contexts)

    return Image(MONITORING_IMAGE, artefact("image-monitoring", "1", key, make))


def _debian() -> str:
    """Name of a minimal Debian in buildah's store, created with debootstrap if it does not exist."""
    name = f"localhost/spindle-testbed/debian:{_RELEASE}"
    with locked("debian"):
        if not _in_store(name):
            _make_debian(name)
    return name


def _make_debian(name: str) -> None:
    ensure_programs("debootstrap", "buildah")
    say(f"Debian {_RELEASE}: debootstrap (once, about a minute)")
    root = cache_dir() / "debian.part"
    if root.exists():
        shutil.rmtree(root)
    _isolated("debootstrap", "--variant=minbase", "--include=ca-certificates", _RELEASE, root)
    for waste in (
        "var/cache/apt/archives",
        "var/lib/apt/lists",
        "usr/share/doc",
        "usr/share/locale",
        "var/log",
    ):
        shutil.rmtree(root / waste)
        (root / waste).mkdir()
    (root / "var/cache/apt/archives/partial").mkdir()
    _buildah("rm", "--all")  # remains of an interrupted build
    container = _buildah("from", "scratch").strip()
    _buildah("copy", "--quiet", container, str(root), "/")
    _buildah("commit", "--quiet", "--rm", container, name)
    shutil.rmtree(root)


def _build(name: str, dockerfile: Path, context: Path, folder: Path, *more: str) -> None:
    """Build an image and store its manifest and blobs in the folder."""
    ensure_programs("buildah")
    say(f"building image {name}")
    options = ("--quiet", "--layers", "--isolation=chroot", *more)
    _buildah("build", *options, f"--tag={name}", f"--file={dockerfile}", context)
    # Uncompressed: it stays on this machine.
    _buildah("push", "--quiet", "--disable-compression", name, f"dir:{folder}")


def _in_store(name: str) -> bool:
    ensure_programs("buildah")
    listed = json.loads(_buildah("images", "--json") or "[]")
    return any(name in (image.get("names") or []) for image in listed or [])


def _buildah(*arguments: str | Path) -> str:
    """Run buildah on its own store in the cache."""
    store = cache_dir() / "buildah"
    return _isolated(
        "buildah", f"--root={store}", "--runroot=/run/buildah", "--storage-driver=overlay", *arguments
    )


def _isolated(program: str, *arguments: str | Path) -> str:
    """Run a tool that mounts file systems; its mounts, processes and files in /run and /var/lib are removed with it."""
    command = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
        "--propagation",
        "private",
    ]
    prepare = 'mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib && exec "$@"'
    remove_orphans(cache_dir(), "scratch-")
    with TemporaryDirectory(prefix=f"scratch-{os.getpid()}-", dir=cache_dir()) as scratch:
        return run(program, *command, "sh", "-c", prepare, "sh", program, *arguments, env={"TMPDIR": scratch})


def _add(archive: tarfile.TarFile, name: str, body: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(body)
    archive.addfile(entry, BytesIO(body))


def _digest(*paths: Path, text: str = "") -> str:
    """Digest of files and folders, without Python's cache files."""
    digest = hashlib.sha256(text.encode())
    for top in paths:
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(top.parent)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def forget_old(pattern: str, current: Path, keep: int) -> None:
    """Delete all matching entries of the cache except the newest ones and the current one."""
    entries = sorted(cache_dir().glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for entry in entries[keep:]:
        if entry != current and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
