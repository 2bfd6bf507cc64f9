"""A registry beside the control plane of the testbed, without TLS, which all nodes reach."""

import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.cluster.build import ensure_release_tools
from e2e.cluster.images import Image
from e2e.cluster.layout import REGISTRY
from e2e.cluster.testbed import Testbed
from tools.images.assemble import host_architecture
from tools.release.oci import write_layout

_START: Final = 30.0  # seconds


class Registry:
    """A running registry."""

    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self._testbed = testbed
        self._folder = folder

    def push(self, name: str, image: Image) -> str:
        """Push an image of this machine's architecture as a release has it: as an index of architectures in an archive.

        Args:
            name: with the tag, without the registry.
            image: where its files are; its own name does not matter.

        Returns:
            The image's full name.
        """
        archive, unpacked = self._folder / "layout.tar", self._folder / "layout"
        write_layout({host_architecture(): image.folder}, name.rpartition(":")[2], archive)
        with tarfile.open(archive) as layout:
            layout.extractall(unpacked, filter="data")
        full = f"{REGISTRY}/{name}"
        self._crane("push", "--insecure", unpacked, full)
        subprocess.run(["rm", "-rf", archive, unpacked], check=True)
        return full

    def ready(self) -> bool:
        """Whether it answers."""
        asked = self._testbed.inside(ensure_release_tools() / "crane", "catalog", "--insecure", REGISTRY)
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def _crane(self, *arguments: str | Path) -> None:
        command = self._testbed.inside(ensure_release_tools() / "crane", *arguments)
        subprocess.run(command, check=True, capture_output=True, timeout=300)


@contextmanager
def registry(testbed: Testbed, folder: Path, images: Mapping[str, Image]) -> Iterator[dict[str, str]]:
    """Run a registry with these images.

    Args:
        testbed: whose nodes pull from it.
        folder: for its files; empty.
        images: name with the tag → image.

    Yields:
        Name with the tag → full name.
    """
    (folder / "blobs").mkdir()
    command = (
        ensure_release_tools() / "crane",
        "registry",
        "serve",
        "--address",
        REGISTRY,
        "--disk",
        folder / "blobs",
    )
    with (
        (folder / "registry.log").open("wb") as log,
        subprocess.Popen(testbed.inside(*command), stdout=log, stderr=log) as process,
    ):
        try:
            made = Registry(testbed, folder)
            deadline = time.monotonic() + _START
            while not made.ready():
                assert process.poll() is None, (folder / "registry.log").read_text()
                assert time.monotonic() < deadline, "the registry does not answer"
            yield {name: made.push(name, image) for name, image in images.items()}
        finally:
            process.terminate()
