"""The enclosure of the nodes' disks: a program that serves their images, and injects faults on command.

It has a mount namespace of its own, in which nodes are created, so that its mount is invisible to the host. It is not part of
any node: disks stay as they are when a node loses power.
"""

import json
import socket

from e2e.cluster.build import ensure_enclosure
from e2e.cluster.cgroups import join_command
from e2e.cluster.layout import Layout
from e2e.cluster.procs import Process, spawn
from e2e.cluster.waiting import wait_for


class Enclosure:
    """The enclosure of one testbed."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._socket = layout.state / "enclosure.socket"

    def start(self) -> Process:
        """Start it; its process also holds the mount namespace in which nodes start."""
        layout = self._layout
        program = ensure_enclosure()
        layout.images.mkdir()
        layout.enclosure.mkdir()
        isolated = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            program,
            layout.images,
            layout.enclosure,
        ]
        log = layout.logs / "enclosure.log"
        process = spawn(
            [*join_command(f"{layout.cgroup}/control"), *map(str, isolated), str(self._socket)], log
        )
        wait_for("the enclosure", self._socket.exists, seconds=20, every=0.02, detail=log.read_text)
        return process

    def order(self, file: str, mode: str, milliseconds: int = 0) -> None:
        """Set a disk's behaviour from now on: well, slow (additional time per request), hang, or error.

        Args:
            file: its image, relative to the folder of images.
            mode: the behaviour.
            milliseconds: for slow.
        """
        self._ask({"file": file, "mode": mode, "milliseconds": milliseconds})

    def sick(self) -> dict[str, str]:
        """Image and mode of all disks with a fault."""
        return {file: order["mode"] for file, order in self._ask({"mode": "ask"}).items()}

    def _ask(self, order: dict[str, str | int]) -> dict[str, dict[str, str]]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self._socket))
            connection.sendall(json.dumps(order).encode())
            answer = b""
            while block := connection.recv(65536):
                answer += block
        found: dict[str, dict[str, str]] = json.loads(answer)
        return found
