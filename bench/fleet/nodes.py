"""Real controllers, and one real broker that holds no replica: it follows the metadata log and answers the operator's questions about the cluster."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.cluster.build import ensure_kafka_libs
from spindle.api import names
from spindle.config import server_properties
from spindle.model.disk_identity import META_PROPERTIES, Identity, render_meta_properties
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import METADATA_DISK, Layout
from tests.kafka import archive
from tests.kafka.certs import Ca

# Without a heartbeat for so long, a broker is fenced. Long, because on a busy machine all heartbeats are late: what is to be fenced asks for it.
SESSION_MS: Final = 600_000
_SETTINGS: Final = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "broker.session.timeout.ms": str(SESSION_MS),
    "log.cleaner.enable": "false",
}
_STOP_SECONDS: Final = 20


@dataclass
class Nodes:
    """Processes of one Kafka.

    Attributes:
        base: folder for everything that they write.
        version: release.
        controllers: how many.
        broker_id: of the real broker.
        heap_mb: of each process.
    """

    base: Path
    version: str
    controllers: int
    broker_id: int
    heap_mb: int
    running: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._entropy = os.urandom(32)
        self.ca = Ca()
        self.cluster_id = uuid_from_entropy(self._entropy, "cluster")
        self.hosts = {names.controller_id(i): f"127.78.0.{i + 1}" for i in range(self.controllers)}
        self.broker_host = "127.78.1.1"

    @property
    def operator(self) -> Path:
        """Folder with the operator's certificate and key."""
        return self.base / "operator"

    def start(self) -> None:
        """Format and start all."""
        self.ca.client(self.operator, names.PRINCIPAL_OPERATOR)
        for node, host in (*self.hosts.items(), (self.broker_id, self.broker_host)):
            layout = Layout(str(self.base / str(node)))
            self.ca.node(Path(layout.tls_dir), names.PRINCIPAL_NODE, host)
            config = server_properties.NodeConfig(
                node_id=node,
                host=host,
                bind=host,
                controllers=self.hosts,
                brokers=3,
                config=_SETTINGS,
                heap=f"{self.heap_mb}m",
                layout=layout,
                static_quorum=True,
            )
            voter = node in self.hosts
            settings = (
                server_properties.controller_settings(config)
                if voter
                else server_properties.broker_settings(config, rack="r0")
            )
            dirs = [layout.metadata_log_dir] if voter else [layout.metadata_log_dir, layout.log_dir("disk0")]
            settings["log.dirs"] = dirs[-1]
            file = self.base / f"{node}.properties"
            file.write_text(server_properties.render(settings))
            for folder in dirs:
                Path(folder).mkdir(parents=True)
            if voter:
                tool = ("kafka.tools.StorageTool", "format", f"-t={self.cluster_id}", f"-c={file}")
                subprocess.run(self._java(128, *tool), check=True, capture_output=True)
            else:
                self._format(node, dirs)
            with (self.base / f"{node}.log").open("wb") as log:
                self.running[node] = subprocess.Popen(
                    self._java(self.heap_mb, "kafka.Kafka", str(file)), stdout=log, stderr=log
                )

    def _format(self, node: int, dirs: list[str]) -> None:
        for disk, folder in zip((METADATA_DISK, "disk0"), dirs, strict=True):
            directory = uuid_from_entropy(self._entropy, str(node), disk)
            identity = Identity(self.cluster_id, node, disk, directory)
            (Path(folder) / META_PROPERTIES).write_text(render_meta_properties(identity))

    def _java(self, heap_mb: int, *arguments: str) -> list[str]:
        jvm = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", archive.options(self.version)]
        classes = f"{ensure_kafka_libs(self.version)}/*"
        return ["setpriv", "--pdeathsig", "KILL", "--", "java", *jvm, "-cp", classes, *arguments]

    def check(self) -> None:
        """Raises RuntimeError, with the end of its log, if one of the processes has ended."""
        for node, process in self.running.items():
            if process.poll() is not None:
                log = (self.base / f"{node}.log").read_text(errors="replace")
                raise RuntimeError(f"node {node} ended with {process.returncode}:\n{log[-2000:]}")

    def memory_mib(self) -> dict[int, int]:
        """Node id → resident memory of its process."""
        return {node: resident_mib(process.pid) for node, process in self.running.items()}

    def stop(self) -> None:
        """End all processes."""
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)
        for process in self.running.values():
            process.wait(_STOP_SECONDS)
        self.running.clear()


def resident_mib(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0
