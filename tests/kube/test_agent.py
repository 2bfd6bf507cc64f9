"""``spindle-agent`` as a process, against a real API server and disks that really hang."""

import base64
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer, free_ports
from e2e.cluster.cleanup import loop_devices, remove_free_loops
from spindle.model.disk_identity import Identity, render_identity, render_meta_properties
from tests.kafka.disks import Disk, run, unmount_all_below
from tests.kube.samples import cluster

pytestmark = pytest.mark.kube

ID = "A" * 21
NODE = "node-1"


@pytest.fixture(scope="module", autouse=True)
def _no_loops_left() -> Iterator[None]:
    before = set(loop_devices())
    yield
    remove_free_loops(before)


class Agent:
    """An agent's process, its disks, and the KafkaBroker that it looks after."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path, disks: int = 2) -> None:
        self.server, self.namespace, self.folder = server, namespace, folder
        (self.port,) = free_ports(1)
        self.disks = {f"disk{index}": Disk(folder / f"{index}.img") for index in range(disks)}
        for name, disk in self.disks.items():
            disk.mount(folder / "disks" / name)
            identity = Identity("cluster", 0, name, self.directory_id(name))
            (folder / "disks" / name / "log").mkdir()
            (folder / "disks" / name / "log" / "meta.properties").write_text(render_meta_properties(identity))
            (folder / "disks" / name / "spindle.json").write_text(render_identity(identity, None))
        self._credentials()
        self._make_cluster()
        self._process: subprocess.Popen[bytes] | None = None

    def directory_id(self, disk: str) -> str:
        return ID + disk[-1]

    def _credentials(self) -> None:
        kubectl = self.server.kubectl
        kubectl("create", "serviceaccount", "agent", "-n", self.namespace)
        kubectl(
            "create",
            "clusterrolebinding",
            f"agent-{self.namespace}",
            "--clusterrole=cluster-admin",
            f"--serviceaccount={self.namespace}:agent",
        )
        token = kubectl("create", "token", "agent", "-n", self.namespace)
        (self.folder / "token").write_text(token)
        config = kubectl("config", "view", "--raw", "-o", "json")
        authority = json.loads(config)["clusters"][0]["cluster"]["certificate-authority-data"]
        (self.folder / "ca.crt").write_bytes(base64.b64decode(authority))

    def _make_cluster(self) -> None:
        """Whose status says what the disks say: without that nothing is written to them."""
        kubectl = self.server.kubectl
        kubectl("create", "-n", self.namespace, "-f", "-", stdin=json.dumps(cluster()))
        told = json.dumps({"status": {"clusterId": "cluster"}})
        kubectl(
            *("patch", "kafkacluster", "demo", "-n", self.namespace),
            *("--subresource=status", "--type=merge", "--patch", told),
        )

    def make_broker(self, name: str = "demo-broker-0", node: str = NODE) -> None:
        meta = {"name": name, "namespace": self.namespace}
        head = {"apiVersion": "spindle.dev/v1alpha1", "kind": "KafkaBroker", "metadata": meta}
        disks = [
            {"name": disk, "claim": f"data-{disk}", "directoryId": self.directory_id(disk)}
            for disk in self.disks
        ]
        spec = {"cluster": "demo", "id": int(name[-1]), "pool": "main", "node": node, "disks": disks}
        status = {"disks": [{"name": disk, "path": str(self.folder / "disks" / disk)} for disk in self.disks]}
        self.server.kubectl("apply", "-f", "-", stdin=json.dumps({**head, "spec": spec}))
        self.server.kubectl(
            "apply",
            "--server-side",
            "--field-manager=spindle-operator",
            "--subresource=status",
            "-f",
            "-",
            stdin=json.dumps({**head, "status": status}),
        )

    def start(self, server: str = "") -> None:
        with (self.folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "spindle_agent.main",
                    f"--node={NODE}",
                    f"--own-namespace={self.namespace}",
                    f"--namespace={self.namespace}",
                    f"--disk-root={self.folder / 'disks'}",
                    f"--api-server={server or self.server.url}",
                    f"--token-file={self.folder / 'token'}",
                    f"--ca-file={self.folder / 'ca.crt'}",
                    f"--port={self.port}",
                ],
                stdout=log,
                stderr=log,
            )

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """End it; returns its exit code and the seconds that it took."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(number)
        code = self._process.wait(30)
        self._process = None
        return code, time.monotonic() - began

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for disk in self.disks.values():
            with contextlib.suppress(RuntimeError):
                disk.thaw()
        unmount_all_below(self.folder)

    # -- what is told

    def broker(self, name: str = "demo-broker-0") -> dict[str, Any]:
        got = self.server.kubectl("get", "kafkabroker", name, "-n", self.namespace, "-o", "json")
        return dict(json.loads(got))

    def observed(self, name: str = "demo-broker-0") -> dict[str, Any]:
        return dict((self.broker(name).get("status") or {}).get("observed") or {})

    def verdicts(self) -> dict[str, str]:
        return {disk["name"]: disk["verdict"] for disk in self.observed().get("disks", ())}

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def page_answers(self) -> bool:
        try:
            return self.page("healthz") == "ok\n"
        except OSError:
            return False

    @property
    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def until(self, what: str, question: Callable[[], Any], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not question():
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {seconds} s\n{self.log}\n{self.observed()}")
            time.sleep(0.2)  # noqa: TID251 - a poll with a deadline


@pytest.fixture
def agent(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(api_server, namespace, tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_it_tells_of_its_own_nodes_disks_and_touches_nothing_else(agent: Agent) -> None:
    agent.make_broker()
    agent.make_broker("demo-broker-1", node="another")
    agent.start()
    agent.until("a status", lambda: agent.verdicts() == {"disk0": "Healthy", "disk1": "Healthy"})

    broker = agent.broker()
    assert [disk["content"] for disk in broker["status"]["observed"]["disks"]] == ["ours", "ours"]
    assert {disk["path"] for disk in broker["status"]["disks"]} == {
        str(agent.folder / "disks" / disk) for disk in agent.disks
    }
    managers = {
        each["manager"]: each["fieldsV1"]["f:status"]
        for each in agent_managed_fields(agent)
        if "f:status" in each["fieldsV1"]
    }
    assert set(managers["spindle-agent"]) == {"f:observed"}
    assert agent.observed("demo-broker-1") == {}

    version = broker["metadata"]["resourceVersion"]
    lease = f"spindle-agent-{NODE}"
    renewed = agent.server.kubectl("get", "lease", lease, "-n", agent.namespace, "-o", "json")
    assert json.loads(renewed)["spec"]["leaseDurationSeconds"] == 30
    assert agent.page("healthz") == "ok\n"
    assert agent.page("readyz") == "ok\n"
    metrics = agent.page("metrics")
    assert (
        f'spindle_agent_disk_verdict{{broker="demo-broker-0",disk="disk0",kafka_cluster="demo",namespace="{agent.namespace}",verdict="Healthy"}} 1.0'
        in metrics
    )
    time.sleep(3)  # noqa: TID251 - in which nothing is to happen
    assert agent.broker()["metadata"]["resourceVersion"] == version, "written without a change"


def agent_managed_fields(agent: Agent) -> list[dict[str, Any]]:
    got = agent.server.kubectl(
        "get", "kafkabroker", "demo-broker-0", "-n", agent.namespace, "-o", "json", "--show-managed-fields"
    )
    return list(json.loads(got)["metadata"]["managedFields"])


def test_an_agent_gets_the_brokers_of_its_node_alone(agent: Agent) -> None:
    """The agent's own requests: with a thousand nodes it would otherwise get what happens on all of them."""
    agent.make_broker()
    agent.make_broker("demo-broker-1", node="elsewhere")
    selected = agent.server.kubectl(
        "-n", agent.namespace, "get", "kafkabrokers", f"--field-selector=spec.node={NODE}", "-o", "name"
    )
    assert selected.split() == ["kafkabroker.spindle.dev/demo-broker-0"]
    agent.start()
    agent.until("a status", lambda: len(agent.verdicts()) == 2)
    assert "cannot select KafkaBrokers by node" not in agent.log


def test_a_dead_disk_is_in_the_status(agent: Agent) -> None:
    agent.make_broker()
    agent.start()
    agent.until("a status", lambda: len(agent.verdicts()) == 2)
    agent.disks["disk1"].die()
    agent.until("a verdict", lambda: agent.verdicts()["disk1"] == "Failed")
    assert agent.verdicts()["disk0"] == "Healthy"


@pytest.mark.slow  # beside other tests the agent may be starved, and gives no verdict of a hang then, as it should
def test_it_ends_at_once_though_a_write_hangs_and_goes_on_where_it_was(agent: Agent) -> None:
    agent.make_broker()
    agent.start()
    agent.until("a status", lambda: len(agent.verdicts()) == 2)
    agent.disks["disk1"].freeze()
    agent.until("a verdict", lambda: agent.verdicts()["disk1"] == "Failed", seconds=30)
    since = agent.observed()["disks"][1]["since"]
    assert agent.observed()["disks"][1]["reason"] == "IOHung"

    code, took = agent.stop()
    assert code == 0
    assert took < 10
    agent.start()
    agent.until("it lives again", agent.page_answers)
    time.sleep(3)  # noqa: TID251 - in which nothing is to happen
    assert agent.observed()["disks"][1]["verdict"] == "Failed"
    assert agent.observed()["disks"][1]["since"] == since
    run("fsfreeze", "-u", agent.folder / "disks" / "disk1")
    agent.until("it is well again", lambda: agent.verdicts()["disk1"] == "Healthy", seconds=60)


class Door:
    """A port that leads to the API server, and can be shut."""

    def __init__(self, url: str) -> None:
        self._target = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        (self.port,) = free_ports(1)
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """Nobody comes in, and who is in is thrown out."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                inside = listener.accept()[0]
                outside = socket.create_connection(self._target)
                self._open += [inside, outside]
                for source, sink in ((inside, outside), (outside, inside)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)


def test_it_waits_for_the_api_server_goes_on_without_and_catches_up(agent: Agent) -> None:
    agent.make_broker()
    listener = Door(agent.server.url)
    agent.start(listener.url)
    agent.until("it lives", agent.page_answers)
    time.sleep(2)  # noqa: TID251 - in which nothing is to happen
    assert agent.page("healthz") == "ok\n"
    assert "next attempt in" in agent.log

    listener.open()
    agent.until("a status", lambda: len(agent.verdicts()) == 2, seconds=30)
    listener.shut()
    agent.disks["disk1"].die()
    failed = f'disk="disk1",kafka_cluster="demo",namespace="{agent.namespace}",verdict="Failed"}} 1.0'
    agent.until("a verdict without the server", lambda: failed in agent.page("metrics"), seconds=5)
    assert agent.verdicts()["disk1"] == "Healthy"
    listener.open()
    agent.until("what happened meanwhile is told", lambda: agent.verdicts()["disk1"] == "Failed", seconds=30)
    listener.shut()
    code, took = agent.stop()
    assert (code, took < 10) == (0, True)
