"""One broker or controller as the kubelet would run it: init containers, then Kafka's container, on a root of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from e2e.cluster.build import ensure_jmx_exporter, ensure_kafka_libs
from spindle.api import names
from spindle.config import server_properties
from spindle.listeners.broker_listener import BrokerListener, allowed_urls, token_urls
from spindle.manifests.config_maps import LOGGERS_KEY, TOPICS_KEY, node_config_map
from spindle.manifests.pods import disks_annotation
from spindle.model import inspection
from spindle.model.layout import METADATA_DISK, Layout
from spindle.model.node_inputs import ACTIVE, PLACEHOLDER, ClusterInputs, DiskInputs, NodeInputs, VoterInputs
from tests.kafka import archive
from tests.kafka.disks import Disk

DEADLINE = 60.0
START = 180.0  # several JVMs at once, on a machine that has other work as well
UNASKED = 5.0  # until its readiness is asked for though it has not said that it has started
STARTED = b"Kafka Server started"  # the last that Kafka says of a start

POD_UID: Final = "11111111-aaaa-bbbb-cccc-222222222222"


def wait_for(
    what: str, question: Callable[[], Any], seconds: float = DEADLINE, pause: float | None = None
) -> Any:
    """Ask until the answer is true; raises when it was not in time.

    Unless told how long to pause, it leaves the processors, which it shares with the brokers, alone for as long as it has asked.
    """
    end = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        answer = question()
        if answer:
            return answer
        answered = time.monotonic()
        if answered > end:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        rest = min(max(answered - asked, 0.1), 1.0) if pause is None else pause
        time.sleep(rest)  # noqa: TID251 - a poll with a deadline


@dataclass
class Slot:
    """One disk of a node: what is on record, and the disk that stands there."""

    directory_id: str
    disk: Disk | None
    fs_uuid: str | None = None
    mode: str = ACTIVE


@dataclass
class Node:
    """Directories of one pod, and its processes."""

    base: Path
    cluster: ClusterInputs
    node_id: int
    address: str
    controllers: dict[int, str]
    voters: tuple[VoterInputs, ...]
    brokers: int
    slots: dict[str, Slot]
    rack: str | None = None
    extra: dict[str, str] = field(default_factory=dict)
    doors: tuple[BrokerListener, ...] = ()
    static_quorum: bool = False
    follower_fetching: bool = False
    jvm: str | None = None  # more options for Kafka's JVM, in place of the archive of its classes
    kafka: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.layout = Layout(str(self.base))
        for folder in (
            self.layout.disks_root,
            self.layout.metadata_dir,
            self.layout.handover_dir,
            self.layout.config_dir,
            self.layout.podinfo_dir,
        ):
            Path(folder).mkdir(parents=True, exist_ok=True)
        self.clearances: list[dict[str, Any]] = []
        self.leaving = ""  # disks that are used only if a replica stands on them, with commas
        self.nonce = ""
        self._told = 0  # bytes of the log that earlier starts wrote
        self.insert_all()

    @property
    def controller(self) -> bool:
        return self.node_id >= names.FIRST_CONTROLLER_ID

    @property
    def log(self) -> Path:
        return self.base / "kafka.log"

    def mount(self, name: str) -> Path:
        return Path(self.layout.mount(name))

    def insert_all(self) -> None:
        for name, slot in self.slots.items():
            if slot.disk is not None and slot.disk.at is None and slot.mode == ACTIVE:
                slot.disk.mount(self.mount(name))

    # -- what Kubernetes does ------------------------------------------------------------------------------------

    def new_pod(self) -> None:
        """Empty what a new pod starts with empty, and write what it gets from outside."""
        assert self.kafka is None
        shutil.rmtree(self.layout.handover_dir)
        Path(self.layout.handover_dir).mkdir()
        if not self.controller:
            shutil.rmtree(self.layout.metadata_dir)
            Path(self.layout.metadata_dir).mkdir()
        for name, slot in self.slots.items():
            path = self.mount(name)
            if slot.mode == PLACEHOLDER:
                if path.is_dir() and not path.is_mount():
                    path.rmdir()
            else:
                if path.is_file():
                    path.unlink()
                path.mkdir(exist_ok=True)
        self.insert_all()
        self.clearances = []
        self.write_inputs()

    def write_inputs(self) -> None:
        node = server_properties.NodeConfig(
            node_id=self.node_id,
            host=self.address,
            controllers=self.controllers,
            brokers=self.brokers,
            config=self.extra,
            heap="192m",
            bind=self.address,
            layout=self.layout,
            listeners=self.doors,
            static_quorum=self.static_quorum,
            follower_fetching=self.follower_fetching,
        )
        properties = (
            server_properties.render(server_properties.controller_settings(node))
            if self.controller
            else server_properties.render(server_properties.broker_settings(node, rack=self.rack))
        )
        inputs = NodeInputs(node_id=self.node_id, server_properties=properties, disks=self.disk_inputs())
        data = node_config_map(self.cluster, inputs, self.voters)["data"]
        document = json.loads(data["node.json"])
        document["bind"] = self.address
        for voter in document.get("voters", ()):
            voter["host"] = self.controllers[voter["id"]]
        folder = Path(self.layout.config_dir)
        (folder / "server.properties").write_text(data["server.properties"])
        (folder / "node.json").write_text(json.dumps(document))
        self.write_annotations()

    def disk_inputs(self) -> tuple[DiskInputs, ...]:
        return tuple(
            DiskInputs(
                name=name,
                claim=f"claim-{name}",
                directory_id=slot.directory_id,
                fs_uuid=slot.fs_uuid,
                mode=slot.mode,
            )
            for name, slot in self.slots.items()
        )

    def write_annotations(self) -> None:
        annotations = {
            names.ANN_CLUSTER_ID: self.cluster.cluster_id,
            names.ANN_DISKS: disks_annotation(self.disk_inputs()),
        }
        if self.clearances:
            annotations[names.ANN_CLEARANCE] = json.dumps(self.clearances)
        if self.leaving:
            annotations[names.ANN_LEAVING] = self.leaving
        text = "".join(f"{key}={json.dumps(value)}\n" for key, value in sorted(annotations.items()))
        path = Path(self.layout.podinfo_dir) / "annotations"
        path.with_name("annotations.new").write_text(text)
        path.with_name("annotations.new").replace(path)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPINDLE_ROOT": self.layout.root,
            "SPINDLE_TERMINATION_LOG": str(self.base / "termination"),
            names.ENV_POD_UID: POD_UID,
            "SPINDLE_JMX_JAR": str(ensure_jmx_exporter()),
            "SPINDLE_KAFKA_LIBS": str(ensure_kafka_libs(self.cluster.version)),
            "SPINDLE_READY_STATE": str(self.base / "ready-state"),
            "SPINDLE_JMX_CONFIG": str(self.base / "jmx.yaml"),
            "SPINDLE_TOPICS": f"{self.layout.topics_dir}/{TOPICS_KEY}",
            "SPINDLE_LOGGERS": f"{self.layout.loggers_dir}/{LOGGERS_KEY}",
            "SPINDLE_LOG4J_CONFIG": str(self.base / "log4j2.properties"),
            "SPINDLE_CLOSED": str(self.base / "closed"),
            "KAFKA_HEAP_OPTS": "-Xmx192m",
            "KAFKA_OPTS": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {allowed_urls(token_urls(self.doors))}",
        }

    def preflight_process(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "spindle_agent.preflight.main", "run"],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def preflight(self, seconds: float = 30.0) -> str:
        """Run it to its end; returns its termination message, raises with it on refusal."""
        process = self.preflight_process()
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        message = (self.base / "termination").read_text()
        if process.returncode:
            raise PreflightRefusedError(message or output)
        return message

    def inspect(self) -> dict[str, dict[str, Any]]:
        subprocess.run(
            [sys.executable, "-m", "spindle_agent.preflight.main", "inspect"],
            env=self.environment(),
            check=True,
            capture_output=True,
        )
        text = (self.base / "termination").read_text()
        self.nonce = inspection.parse_nonce(text) or ""
        return inspection.parse(text)

    def start(self) -> None:
        """Start Kafka's container, without waiting for anything."""
        assert self.kafka is None
        environment = self.environment()
        more = archive.options(self.cluster.version) if self.jvm is None else self.jvm
        environment["KAFKA_OPTS"] += f" {more}"
        with self.log.open("ab") as log:
            self._told = log.tell()
            self.kafka = subprocess.Popen(
                # It ends with the tests, also if these are killed.
                ["setpriv", "--pdeathsig", "KILL", "--", "/bin/sh", f"{self.layout.handover_dir}/start.sh"],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def up(self) -> None:
        """A pod from nothing to a running Kafka, with whatever clearances it needs."""
        self.new_pod()
        self.clear_blank()
        self.preflight()
        self.start()

    def stop(self, number: int = signal.SIGTERM, seconds: float = DEADLINE) -> None:
        if self.kafka is not None:
            if self.kafka.poll() is None:
                os.killpg(self.kafka.pid, number)
            self.kafka.wait(seconds)
            self.kafka = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    # -- what the operator does ----------------------------------------------------------------------------------

    def clear(
        self, name: str, fs_uuid: str, *, nonce: str | None = None, directory_id: str | None = None
    ) -> None:
        """Record a file system for a directory id and let preflight format it, by default as an answer to its own look."""
        slot = self.slots[name]
        slot.fs_uuid = fs_uuid
        self.clearances.append(
            {
                "disk": name,
                "pvUid": "pv",
                "fsUuid": fs_uuid,
                "directoryId": directory_id or slot.directory_id,
                "nonce": self.nonce if nonce is None else nonce,
                "podUid": POD_UID,
            }
        )
        # What the pod was made from does not change; only the clearance is added.
        recorded, slot.fs_uuid = slot.fs_uuid, None
        self.write_annotations()
        slot.fs_uuid = recorded

    def clear_blank(self) -> None:
        for name, seen in self.inspect().items():
            if seen["state"] == "blank":
                self.clear(name, seen["fsUuid"])

    # -- what one may ask ----------------------------------------------------------------------------------------

    def ready(self, **settings: str) -> tuple[bool, str]:
        done = subprocess.run(
            ["bash", f"{self.layout.handover_dir}/ready.sh"],
            env=self.environment() | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode == 0, done.stdout + done.stderr

    def started(self) -> bool:
        """Whether Kafka says that its start is over."""
        with self.log.open("rb") as log:
            log.seek(self._told)
            return STARTED in log.read()

    def wait_ready(self, seconds: float = START) -> None:
        asked = time.monotonic()

        def ask() -> bool:
            nonlocal asked
            if self.kafka is not None and self.kafka.poll() is not None:
                raise AssertionError(f"Kafka ended with {self.kafka.returncode}:\n{self.tail()}")
            # Each question makes a JVM that is still warming up collect all of its metrics: before its own word, few.
            if not self.started() and time.monotonic() - asked < UNASKED:
                return False
            asked = time.monotonic()
            return self.ready()[0]

        wait_for(f"node {self.node_id} ready", ask, seconds, pause=0.3)

    def wait_end(self, seconds: float = DEADLINE) -> int:
        """Wait until Kafka's container ends by itself."""
        assert self.kafka is not None
        code = self.kafka.wait(seconds)
        self.kafka = None
        return code

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def metrics(self) -> str:
        with urllib.request.urlopen(
            f"http://{self.address}:{names.PORT_METRICS}/metrics", timeout=10
        ) as answer:
            return str(answer.read().decode())

    def metric(self, pattern: str) -> float | None:
        found = re.search(rf"^{pattern} (\S+)$", self.metrics(), re.MULTILINE)
        return float(found[1]) if found else None

    def log_dir(self, name: str) -> str:
        return self.layout.log_dir(name)


class PreflightRefusedError(AssertionError):
    """Preflight ended with 1; the text is its termination message."""


__all__ = ["METADATA_DISK", "Node", "PreflightRefusedError", "Slot", "wait_for"]
