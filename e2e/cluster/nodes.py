"""Nodes: each a set of namespaces with its own containerd, kubelet, kube-proxy, disks and cable."""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster import cgroups
from e2e.cluster.cleanup import attached_loops
from e2e.cluster.disks import Rack
from e2e.cluster.freeze import thaw_all
from e2e.cluster.layout import CONTROL_ADDRESS, DOMAIN, PAUSE_IMAGE, REGISTRY, ZONE_LABEL, NodeLayout
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.procs import Process, spawn
from e2e.cluster.proxy import proxy_config
from e2e.cluster.system import CommandError, run
from e2e.cluster.waiting import wait_for

# Reserved for the machine itself when its memory is divided among the nodes.
_MACHINE_SHARE: Final = 0.2

CONTAINERD_CONFIG: Final = f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [{
    ", ".join(
        f'"io.containerd.{name}"'
        for name in (
            "snapshotter.v1.aufs",
            "snapshotter.v1.btrfs",
            "snapshotter.v1.devmapper",
            "snapshotter.v1.zfs",
            "internal.v1.opt",
            "tracing.processor.v1.otlp",
            "internal.v1.tracing",
        )
    )
}]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Neither may be had inside a container: no AppArmor, no lowering of one's own badness.
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/run/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry.mirrors."{REGISTRY}"]
    endpoint = ["http://{REGISTRY}"]
"""


@dataclass(frozen=True)
class Node:
    """One node: creates its files, powers it on and off, runs commands on it.

    Attributes:
        layout: its names and paths.
        zone: value of its zone label.
        kubernetes: folder of the Kubernetes programs.
        enclosure: pid of the enclosure, in whose mount namespace it starts.
    """

    layout: NodeLayout
    zone: str
    kubernetes: Path
    enclosure: int

    def make(self, containerd: Path, nodes: int) -> None:
        """Write its files; its containerd starts with a copy of the given folder."""
        folder = self.layout.folder
        for name in ("kubelet", "cni"):
            (folder / name).mkdir(parents=True)
        clone(containerd, folder / "containerd")
        (folder / "containerd.toml").write_text(CONTAINERD_CONFIG)
        (folder / "cni" / "10-testbed.conflist").write_text(json.dumps(self._network()))
        (folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet(nodes)))
        pki = self.layout.testbed.pki
        (folder / "proxy.yaml").write_text(
            proxy_config(self.layout.name, pki / "kube-proxy.conf", self.layout.address)
        )
        (folder / "resolv.conf").write_text(f"nameserver {CONTROL_ADDRESS}\n")

    def switch_on(self) -> Process:
        """Boot it. Returns at once; the node runs as long as the returned process."""
        # So that the kubelet answers its probes and sends its heartbeat even while all brokers start at once.
        cgroups.make(f"{self.layout.cgroup}/system", weight=4)
        (self.layout.folder / "boot_id").unlink(missing_ok=True)
        plan = self.layout.folder / "boot.json"
        plan.write_text(json.dumps(self._boot_plan(), indent=1))
        command = [
            *cgroups.join_command(f"{self.layout.cgroup}/system"),
            *(
                "nsenter",
                f"--net=/run/netns/{self.layout.netns}",
                f"--mount=/proc/{self.enclosure}/ns/mnt",
                "--",
            ),
            *("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL"),
            *("--propagation", "private", sys.executable, "-m", "e2e.cluster.node_init", str(plan)),
        ]
        return spawn(command, self.layout.log / "init.log", env={"PYTHONPATH": str(CHECKOUT)})

    def switch_off(self) -> None:
        """Power it off: all of its processes are killed at once."""
        thaw_all(self.layout.cgroup)
        cgroups.kill_all(self.layout.cgroup)
        wait_for("removal of the node's mounts", lambda: not self.loops(), seconds=20, every=0.05)
        cgroups.remove(self.layout.cgroup)
        self._pid_file.unlink(missing_ok=True)

    def loops(self) -> list[str]:
        """Loop devices of its images."""
        return attached_loops(self.layout.served)

    def is_on(self) -> bool:
        """Whether it is powered on."""
        return self._init() is not None

    def command(self, *command: str | Path) -> list[str]:
        """The command line that runs a command on the node, in all its namespaces."""
        init = self._init()
        if init is None:
            raise OffError(f"{self.layout.name} is off")
        return [
            "nsenter",
            f"--target={init}",
            "--mount",
            "--pid",
            "--net",
            "--uts",
            "--ipc",
            "--",
            *map(str, command),
        ]

    def run(self, *command: str | Path, stdin: str | None = None, seconds: float = 60) -> str:
        """Run a command on the node and return its output."""
        return run(*self.command(*command), stdin=stdin, seconds=seconds)

    @property
    def _pid_file(self) -> Path:
        """Written by the node's first process."""
        return self.layout.folder / "init.pid"

    def _init(self) -> int | None:
        """Pid of the node's first process."""
        try:
            pid = int(self._pid_file.read_text())
            mine = Path(f"/proc/{pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
        except (OSError, ValueError):
            return None
        return pid if mine and pid in cgroups.members(self.layout.cgroup) else None

    def _boot_plan(self) -> dict[str, Any]:
        """Plan for the node's first process."""
        layout, folder = self.layout, self.layout.folder
        pki = layout.testbed.pki
        kubelet = [
            self.kubernetes / "kubelet",
            f"--config={folder / 'kubelet.yaml'}",
            f"--kubeconfig={pki / f'{layout.name}.conf'}",
            f"--hostname-override={layout.name}",
            f"--node-ip={layout.address}",
            f"--node-labels={ZONE_LABEL}={self.zone}",
        ]
        return {
            "name": layout.name,
            "folder": str(folder),
            "log": str(layout.log),
            "disks": [
                {"image": str(layout.served / disk.image), "mount": disk.mount} for disk in Rack(layout).all()
            ],
            "programs": {
                "containerd": ["containerd", "-c", str(folder / "containerd.toml")],
                "kubelet": [str(part) for part in kubelet],
                "kube-proxy": [str(self.kubernetes / "kube-proxy"), f"--config={folder / 'proxy.yaml'}"],
            },
        }

    def _network(self) -> dict[str, Any]:
        """The pods' network, for the CNI plugins."""
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": self.layout.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/cni-addresses",  # lost when the node loses power, like the pods
        }
        bridge = {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "hairpinMode": True,
            "ipMasq": False,
        }
        return {"cniVersion": "0.4.0", "name": "testbed", "plugins": [{**bridge, "ipam": ipam}]}

    def _kubelet(self, nodes: int) -> dict[str, Any]:
        """The kubelet's configuration."""
        layout = self.layout
        pki = layout.testbed.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": layout.address,
            "healthzBindAddress": "127.0.0.1",
            "authentication": {
                "x509": {"clientCAFile": str(pki / "ca.crt")},
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pki / f"{layout.name}-server.crt"),
            "tlsPrivateKeyFile": str(pki / f"{layout.name}-server.key"),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{layout.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            # It would write settings of the whole machine; with this it only compares them, and reads the substitutes.
            "protectKernelDefaults": True,
            "clusterDNS": [CONTROL_ADDRESS],
            "clusterDomain": DOMAIN,
            "resolvConf": str(layout.folder / "resolv.conf"),
            "volumePluginDir": "/var/lib/kubelet/volumeplugins",
            # Every node sees all of the machine's memory; this limits its allocatable memory to a fair share.
            "systemReserved": {"memory": f"{_reserved_memory(nodes) >> 20}Mi", "cpu": "100m"},
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "serializeImagePulls": False,
            "maxPods": 60,
            "nodeStatusUpdateFrequency": "4s",
            "nodeLeaseDurationSeconds": 20,
            "shutdownGracePeriod": "0s",
        }


class OffError(RuntimeError):
    """The node is powered off."""


def clone(source: Path, target: Path) -> None:
    """Copy a containerd folder: its data by hard links, because it is never changed, its databases as copies."""
    try:
        run("cp", "-al", source, target)
    except CommandError:  # another file system: copy everything
        shutil.rmtree(target, ignore_errors=True)
        run("cp", "-a", "--reflink=auto", source, target, seconds=600)
        return
    for database in source.rglob("*.db"):
        copy = target / database.relative_to(source)
        copy.unlink()
        shutil.copy2(database, copy)


def _reserved_memory(nodes: int) -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(total - total * (1 - _MACHINE_SHARE) / nodes)
