"""The first process of a node: creates its view of the file system, mounts its disks, runs its programs.

python -m e2e.cluster.node_init PLAN.json, as process 1 of new mount, pid, uts and ipc namespaces. When it dies, the
kernel kills everything that it started, as if the node were powered off.
"""

import json
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Final

from e2e.cluster.waiting import pause, wait_for

# The kubelet compares these settings of the whole machine with the values that it needs, so it is shown those values.
# In addition, the node has a boot id of its own, as every boot of a machine has one.
_DECOYS: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def make_view(folder: Path, log: Path) -> None:
    """The node's own /proc, /run, /var/lib, /var/log and /mnt, and substitutes for settings of the whole machine."""
    mount("-t", "proc", "proc", "/proc")
    mount("--make-rshared", "/")
    for place in ("/run", "/var/lib", "/mnt"):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    for name in (
        "/run/netns",
        "/run/lock",
        "/run/decoys",
        "/var/lib/containerd",
        "/var/lib/kubelet",
        "/run/cni",
    ):
        Path(name).mkdir(parents=True)
    own = {
        "/var/lib/containerd": folder / "containerd",
        "/var/lib/kubelet": folder / "kubelet",
        "/run/cni": folder / "cni",
        "/var/log": log,
    }
    for place, source in own.items():
        mount("--bind", source, place)
        # Out of the peer group of its origin: mounts below must not appear there.
        mount("--make-private", place)
        mount("--make-shared", place)
    decoys = {**_DECOYS, "kernel/random/boot_id": (folder / "boot_id").read_text().strip()}
    for name, value in decoys.items():
        decoy = Path("/run/decoys") / name.replace("/", "_")
        decoy.write_text(f"{value}\n")
        mount("--bind", decoy, f"/proc/sys/{name}")


def mount_disks(disks: list[dict[str, str]]) -> None:
    """Mount the disks. If one cannot be mounted, its folder stays empty, as on any machine with nofail."""
    for disk in disks:
        Path(disk["mount"]).mkdir(parents=True, exist_ok=True)
        command = ["mount", "-o", "loop", disk["image"], disk["mount"]]
        # Try twice: a free loop device may disappear before it is used, if another testbed is taken down at that moment.
        if all(subprocess.run(command, check=False).returncode != 0 for _ in range(2)):
            print(f"{disk['mount']} is not mounted", flush=True)


def supervise(programs: dict[str, list[str]], log: Path) -> None:
    """Keep the programs running, like an init system, and reap orphans."""
    running: dict[int, str] = {}

    def start(name: str) -> None:
        with (log / f"{name}.log").open("ab") as output:
            started = subprocess.Popen(programs[name], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        running[started.pid] = name

    start("containerd")
    wait_for("containerd", Path("/run/containerd/containerd.sock").exists, seconds=60, every=0.05)
    for name in programs:
        if name != "containerd":
            start(name)
    while True:
        pid, status = os.wait()
        name = running.pop(pid, "")
        if name:
            print(f"{name} ended with {os.waitstatus_to_exitcode(status)}, restarting it", flush=True)
            pause(1)
            start(name)


def main() -> None:
    plan: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    folder, log = Path(plan["folder"]), Path(plan["log"])
    # The pid outside of the namespace: the link still leads to the machine's /proc.
    (folder / "init.pid").write_text(str(Path("/proc/self").readlink()))
    (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
    socket.sethostname(plan["name"])
    make_view(folder, log)
    mount_disks(plan["disks"])
    supervise(plan["programs"], log)


if __name__ == "__main__":
    main()
