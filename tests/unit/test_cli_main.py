import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from spindle.api.cluster import KafkaCluster
from spindle_cli import helper_pod, main, status_commands, terminal, topics
from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import ENV_BOOTSTRAP, ENV_CREDENTIALS
from spindle_cli.kube import ClusterView, Kube, KubeError
from tests.unit import cli_samples as samples

RUNNER = CliRunner()


class FakeKube:
    """A namespace with the clusters that it is given; each read of a cluster takes the next of its states."""

    def __init__(self, *clusters: dict[str, Any]) -> None:
        self.raw = list(clusters)
        self.namespace = "default"

    def raw_clusters(self) -> list[dict[str, Any]]:
        return self.raw

    def clusters(self) -> list[KafkaCluster]:
        return [KafkaCluster.parse(each) for each in self.raw]

    def cluster(self, name: str) -> KafkaCluster:
        return KafkaCluster.parse(self.raw.pop(0) if len(self.raw) > 1 else self.raw[0])

    def view(self, name: str) -> ClusterView:
        cluster = self.raw.pop(0) if len(self.raw) > 1 else self.raw[0]
        return ClusterView(cluster, (samples.broker(0),), (samples.pod("demo-controller-0"),))

    one_cluster = Kube.one_cluster


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeKube]:
    monkeypatch.delenv(ENV_CREDENTIALS, raising=False)
    monkeypatch.setattr(status_commands, "_POLL_S", 0.0)
    monkeypatch.setattr(terminal.console, "_width", 100)

    def connect(*clusters: dict[str, Any]) -> FakeKube:
        kube = FakeKube(*clusters)
        monkeypatch.setattr(Kube, "connect", lambda namespace=None: kube)
        return kube

    return connect


def test_status_shows_the_only_cluster_whole(connected: Callable[..., FakeKube]) -> None:
    connected(samples.ready())

    done = RUNNER.invoke(main.app, ["status"])

    assert done.exit_code == 0
    assert "zone-a" in done.stdout
    assert "/var/lib/kafka/disks/disk1/log" in done.stdout


def test_status_lists_several_clusters(connected: Callable[..., FakeKube]) -> None:
    connected(samples.ready("one"), samples.ready("two"))

    done = RUNNER.invoke(main.app, ["status"])

    assert "one" in done.stdout
    assert "two" in done.stdout


def test_status_of_an_empty_namespace(connected: Callable[..., FakeKube]) -> None:
    connected()

    assert "There is no KafkaCluster in namespace default." in RUNNER.invoke(main.app, ["status"]).stdout


def test_status_as_json_holds_the_objects(connected: Callable[..., FakeKube]) -> None:
    connected(samples.ready())

    parts = json.loads(RUNNER.invoke(main.app, ["status", "demo", "-o", "json"]).stdout)

    assert parts["cluster"]["metadata"]["name"] == "demo"
    assert parts["brokers"][0]["status"]["disks"][0]["pv"] == "node1-disk0"
    assert parts["controllers"][0]["metadata"]["name"] == "demo-controller-0"


def test_status_as_yaml_and_wide(connected: Callable[..., FakeKube]) -> None:
    connected(samples.ready("one"), samples.ready("two"))

    parts = yaml.safe_load(RUNNER.invoke(main.app, ["status", "-o", "yaml"]).stdout)
    wide = RUNNER.invoke(main.app, ["status", "-o", "wide"]).stdout

    assert [each["metadata"]["name"] for each in parts["clusters"]] == ["one", "two"]
    assert "one-bootstrap.default.svc:9092" in wide
    assert "one-bootstrap" not in RUNNER.invoke(main.app, ["status"]).stdout


def test_wait_tells_what_is_new_once(connected: Callable[..., FakeKube]) -> None:
    hindrance = {
        "action": "StartPod",
        "object": "Pod/x",
        "reason": "InsufficientVolumes",
        "message": "No node has room.",
    }
    starting = samples.cluster(phase="Starting.", waiting=[hindrance])
    connected(samples.cluster(), starting, starting, samples.cluster(phase="Nearly."), samples.ready())

    done = RUNNER.invoke(main.app, ["wait", "demo"])

    assert done.exit_code == 0
    said = [line.split(" s  ", 1)[1] for line in done.stdout.splitlines()]
    assert said == [
        "  demo-controller-0: ready",
        "  demo-broker-0: Running. In sync.",
        "Starting.",
        "  waits: No node has room.",
        "Nearly.",
        "All 3 brokers and 3 controllers are ready.",
    ]


def test_wait_does_not_take_an_old_status_for_the_new_specs(connected: Callable[..., FakeKube]) -> None:
    changed = samples.ready()
    changed["metadata"]["generation"] = 2
    connected(changed)

    done = RUNNER.invoke(main.app, ["wait", "demo", "--timeout", "0"])

    assert done.exit_code == 1
    assert "was not ready within 0 s" in done.stderr


def test_wait_goes_on_while_a_roll_is_under_way(connected: Callable[..., FakeKube]) -> None:
    rolling = [samples.condition("Ready", "True"), samples.condition("Reconciling", "True")]
    connected(samples.ready(phase="Restarting demo-broker-1.", conditions=rolling))

    assert RUNNER.invoke(main.app, ["wait", "demo", "--timeout", "0"]).exit_code == 1


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "there is none"),
        (["two", "one"], "there are one, two"),
    ],
)
def test_which_cluster_is_asked_when_it_is_not_clear(
    connected: Callable[..., FakeKube], names: list[str], sentence: str
) -> None:
    connected(*(samples.ready(name) for name in names))

    done = RUNNER.invoke(main.app, ["verify"])

    assert done.exit_code == 1
    assert sentence in done.stderr


def test_without_credentials_the_same_command_line_goes_into_a_pod(
    connected: Callable[..., FakeKube], monkeypatch: pytest.MonkeyPatch
) -> None:
    connected(samples.ready())
    calls: list[tuple[Any, ...]] = []

    def run(kube: Any, cluster: str, arguments: list[str], **_: Any) -> int:
        calls.append((cluster, arguments))
        return 4

    monkeypatch.setattr(helper_pod, "run", run)
    monkeypatch.setattr(sys, "argv", ["spindle", "topic", "create", "orders", "-p", "6"])

    done = RUNNER.invoke(main.app, ["topic", "create", "orders", "-p", "6"])

    assert calls == [("demo", ["topic", "create", "orders", "-p", "6"])]
    assert done.exit_code == 4


@pytest.mark.parametrize(("fine", "code"), [(True, 0), (False, 1)])
def test_with_credentials_the_work_is_done_here(
    monkeypatch: pytest.MonkeyPatch, *, fine: bool, code: int
) -> None:
    monkeypatch.setenv(ENV_CREDENTIALS, "/credentials")
    monkeypatch.setenv(ENV_BOOTSTRAP, "demo:9092")
    calls: list[tuple[Any, ...]] = []

    def verify(*arguments: Any) -> bool:
        calls.append(arguments[1:4])
        return fine

    monkeypatch.setattr(topics, "verify", verify)

    assert RUNNER.invoke(main.app, ["verify", "--messages", "50", "--size", "7"]).exit_code == code
    assert calls == [("spindle-verify", 50, 7)]


def test_what_kafka_refuses_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_CREDENTIALS, "/credentials")
    monkeypatch.setenv(ENV_BOOTSTRAP, "demo:9092")

    def describe(*_: Any) -> bool:
        raise ClientError("there is no topic x")

    monkeypatch.setattr(topics, "describe", describe)
    done = RUNNER.invoke(main.app, ["topic", "describe", "x"])

    assert (done.exit_code, done.stderr) == (1, "spindle: there is no topic x\n")


def test_no_kubeconfig_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    with pytest.raises(KubeError, match="set KUBECONFIG"):
        Kube.connect()
