"""Imports images into containerd: once into a template that new nodes copy, later into running nodes."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from e2e.cluster import versions
from e2e.cluster.build import artefact, run
from e2e.cluster.console import say
from e2e.cluster.images import Image, forget_old
from e2e.cluster.nodes import CONTAINERD_CONFIG, clone
from e2e.cluster.paths import cache_dir


def ensure_template(images: list[Image]) -> Path:
    """The cache's containerd folder that contains these images, and perhaps others.

    If another template has only some of them, only the new parts of the others are added to a copy of it: this
    happens after every change of Spindle's code, so it must be fast.
    """
    wanted = [image.folder.name for image in images]

    def make(folder: Path) -> None:
        root = folder / "root"
        (folder / "containerd.toml").write_text(CONTAINERD_CONFIG)
        like = most_alike(wanted, {path: _contents(path)["images"] for path in _templates()})
        known = _contents(like) if like else {"images": [], "blobs": []}
        missing = [image for image in images if image.folder.name not in known["images"]]
        say(f"importing {', '.join(image.name for image in missing)}")
        if like:
            clone(like / "root", root)
        else:
            root.mkdir()
        _import(root, folder / "containerd.toml", missing, known["blobs"])
        contents = {"images": wanted, "blobs": sorted({blob for image in images for blob in image.blobs()})}
        (folder / "contents.json").write_text(json.dumps(contents))

    for path in _templates():
        if set(wanted) <= set(_contents(path)["images"]):
            return path / "root"
    folder = artefact("template", versions.KAFKA, hashlib.sha256(" ".join(wanted).encode()).hexdigest(), make)
    forget_old("template-*", folder, keep=2)
    return folder / "root"


def most_alike(wanted: Sequence[str], there: Mapping[Path, Sequence[str]]) -> Path | None:
    """The template with most of these images; None if it lacks one of the first two, which do not change with Spindle's code."""
    usable = [path for path, images in there.items() if set(wanted[:2]) <= set(images)]
    return max(usable, key=lambda path: len(set(wanted) & set(there[path])), default=None)


def _templates() -> list[Path]:
    """Folders of all complete templates."""
    return [path.parent for path in cache_dir().glob("template-*/contents.json")]


def _contents(template: Path) -> dict[str, list[str]]:
    """Names of the folders of a template's images, and SHA-256 of its blobs."""
    found: dict[str, list[str]] = json.loads((template / "contents.json").read_text())
    return found


_TEMPLATE_SCRIPT: Final = """set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/containerd
mount --bind "$1" /var/lib/containerd
containerd -c "$2" >"$3" 2>&1 &
daemon=$!
tries=0
until [ -S /run/containerd/containerd.sock ]; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || { echo "containerd does not start" >&2; tail -n 20 "$3" >&2; exit 1; }
  sleep 0.05
done
for archive in "$4"/*.tar; do
  # containerd may collect layers of the image that this one replaces while it unpacks on top of them: then once more.
  ctr --namespace k8s.io images import "$archive" || { sleep 1; ctr --namespace k8s.io images import "$archive"; }
done
kill $daemon
wait $daemon
"""


def _import(containerd_root: Path, config: Path, images: list[Image], without: Collection[str] = ()) -> None:
    """Import images into a containerd folder that no containerd uses at the moment."""
    archives = containerd_root.with_name(f"{containerd_root.name}.archives")
    archives.mkdir()
    try:
        for number, image in enumerate(images):
            with (archives / f"{number}.tar").open("wb") as target:
                image.write_archive(target, without)
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child=KILL", "--mount-proc"]
        log = archives / "containerd.log"
        script: list[str | Path] = [
            "sh",
            "-c",
            _TEMPLATE_SCRIPT,
            "sh",
            containerd_root,
            config,
            log,
            archives,
        ]
        run("import of images", *command, "--propagation", "private", *script)
    finally:
        shutil.rmtree(archives)


def import_running(command: list[str], image: Image, without: Collection[str]) -> None:
    """Import an image into a running containerd.

    Args:
        command: the command line that imports an archive from its standard input, on the node.
        image: the image.
        without: digests of the parts that the node has already.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        if process.stdin:
            image.write_archive(process.stdin, without)
            process.stdin.close()
        output = process.stdout.read() if process.stdout else b""
    if process.returncode != 0:
        raise RuntimeError(f"import of {image.name} failed: {output.decode(errors='replace')}")
