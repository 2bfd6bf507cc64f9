"""The commands that write a user's fields: what they write, what they refuse, and the way out that a refusal names."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from typer.testing import CliRunner, Result

from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster
from spindle.evacuation.deadlock import word_for
from spindle.model.waiting import TEXT_LEFT_OUT
from spindle.takeover.downtime import Downtime
from spindle_cli import main, volume_commands
from spindle_cli.consent import consent
from spindle_cli.copied import Typed
from spindle_cli.field_requests import FieldRequest, owners, strangers, withdraw_entry, write
from spindle_cli.kube import ConflictError, Kube, KubeError, NotFoundError
from spindle_cli.objects import Kind
from spindle_cli.options import context_first
from tests.unit import cli_samples as samples

RUNNER = CliRunner()
TOKEN = "A" * 22 + ":5f0c3a9e81d24b67"
RISK = (
    "The only in-sync replica of 1 partition is on disk0 of demo-broker-0, which has failed: orders-3. To resolve: bring the disk back with its data; "
    "or, if it is permanently lost, accept the loss: spindle disk accept-loss demo-broker-0 disk0, or this entry in spec.acceptDataLoss.disks of "
    f'KafkaBroker demo-broker-0: {{"name": "disk0", "token": "{TOKEN}"}}'
)


class FakeKube:
    """A namespace with one broker and its cluster; keeps what is applied."""

    def __init__(self, cluster: dict[str, Any], **spec: Any) -> None:
        self.namespace = "default"
        self.raw_cluster = cluster
        self.raw_broker = samples.broker(0)
        self.raw_broker["metadata"] |= {"uid": "u-1", "managedFields": []}
        self.raw_broker["spec"] |= spec
        self.applied: list[tuple[str, dict[str, Any], bool]] = []
        self.steps: list[Any] = []
        self.conflict: tuple[str, ...] = ()

    def raw_clusters(self) -> list[dict[str, Any]]:
        return [self.raw_cluster]

    def cluster(self, name: str) -> KafkaCluster:
        return KafkaCluster.parse(self.raw_cluster)

    def broker(self, name: str) -> KafkaBroker:
        return KafkaBroker.parse(self.raw("KafkaBroker", name))

    def raw(self, kind: str, name: str) -> dict[str, Any]:
        if name != "demo-broker-0":
            raise NotFoundError(f"there is no {kind} {name} in namespace default")
        return copy.deepcopy(self.raw_broker)

    def apply(self, body: dict[str, Any], manager: str, *, force: bool = False) -> dict[str, Any]:
        if self.conflict and not force:
            raise ConflictError("conflict", self.conflict)
        self.applied.append((manager, body, force))
        return copy.deepcopy(self.raw_broker)

    def json_patch(self, kind: str, name: str, steps: list[Any]) -> None:
        self.steps += steps

    def raw_list(self, kind: str) -> list[dict[str, Any]]:
        return [self.raw(kind, "demo-broker-0")]

    one_cluster = Kube.one_cluster


class FakeObjects:
    """Volumes by name; a patch of a KafkaBroker is kept, unless it has changed since it was read."""

    def __init__(self, kube: FakeKube, **volumes: dict[str, Any]) -> None:
        self.kube, self.volumes, self.asked = kube, volumes, 0
        self.patched: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, kube: FakeKube) -> "FakeObjects":
        return self

    def find(self, kind: Kind, name: str) -> dict[str, Any] | None:
        self.asked += 1
        return self.volumes.get(name) if self.asked > self.volumes.get(name, {}).get("after", 0) else None

    def patch(self, kind: Kind, name: str, body: dict[str, Any]) -> None:
        if body["metadata"]["resourceVersion"] != "7":
            raise ConflictError("conflict")
        self.patched.append((name, body["spec"]))


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeKube]:
    def connect(cluster: dict[str, Any] | None = None, **spec: Any) -> FakeKube:
        kube = FakeKube(cluster or samples.ready(), **spec)
        monkeypatch.setattr(Kube, "connect", lambda namespace=None: kube)
        monkeypatch.setattr(Typed, "context", None)
        return kube

    return connect


def said(output: str) -> str:
    return " ".join(output.split())


@pytest.mark.parametrize(
    ("line", "manager", "spec"),
    [
        ("disk drain demo-broker-0 disk0", "disk0", {"maintenance": {"disks": [{"name": "disk0", "desiredState": "Drained"}]}}),
        ("disk cordon demo-broker-0 disk1", "disk1", {"maintenance": {"disks": [{"name": "disk1", "desiredState": "Cordoned"}]}}),
        ("broker stop demo-broker-0", "stopped", {"maintenance": {"stopped": True}}),
        ("broker start demo-broker-0", "stopped", {"maintenance": {"stopped": False}}),
        ("stop demo-broker-0", "stopped", {"maintenance": {"stopped": True}}),
        ("start demo-broker-0", "stopped", {"maintenance": {"stopped": False}}),
        ("broker remove-first demo-broker-0", "remove-first", {"maintenance": {"removeFirst": True}}),
        ("broker remove-first demo-broker-0 --undo", "remove-first", {"maintenance": {"removeFirst": False}}),
        ("pause", "paused", {"paused": True}),
        ("resume demo", "paused", {"paused": False}),
    ],
)  # fmt: skip
def test_a_command_applies_its_own_field_under_a_manager_of_its_own(
    connected: Callable[..., FakeKube], line: str, manager: str, spec: dict[str, Any]
) -> None:
    kube = connected()

    done = RUNNER.invoke(main.app, line.split())

    assert done.exit_code == 0, done.output
    ((by, body, force),) = kube.applied
    assert (by, body["spec"], force) == (f"spindle-cli-{manager}", spec, False)


def test_a_rolling_restart_writes_the_time(connected: Callable[..., FakeKube]) -> None:
    kube = connected()
    RUNNER.invoke(main.app, ["rollout", "restart"])
    ((_, body, _),) = kube.applied
    assert body["spec"]["rolling"]["restart"].endswith("Z")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("broker stop demo-broker-7", "there is no KafkaBroker demo-broker-7 in namespace default"),
        ("disk drain demo-broker-0 disk9", "demo-broker-0 has no disk disk9; it has disk0, disk1"),
        ("disk release demo-broker-0 disk9", "demo-broker-0 has no disk disk9; it has disk0, disk1"),
        (
            "disk accept-loss demo-broker-0 disk9 --withdraw",
            "demo-broker-0 has no disk disk9; it has disk0, disk1",
        ),
        ("disk accept-loss demo-broker-0 disk0", "it names no disk"),
        ("broker node-lost demo-broker-0", "tell Kubernetes first: kubectl delete node node1"),
        ("broker node-lost demo-broker-0 --node node7", "has its volumes on node node1, not on node7"),
        ("broker accept-unavailable demo-broker-0", "no brokers of demo wait for each other to restart"),
    ],
)
def test_a_refusal_writes_nothing_and_names_the_way_out(
    connected: Callable[..., FakeKube], line: str, sentence: str
) -> None:
    kube = connected()

    done = RUNNER.invoke(main.app, line.split())

    assert done.exit_code == 1
    assert sentence in said(done.stderr)
    assert kube.applied == []


def test_a_broker_without_a_node_has_none_to_lose(connected: Callable[..., FakeKube]) -> None:
    kube = connected(node=None)

    done = RUNNER.invoke(main.app, ["broker", "node-lost", "demo-broker-0"])

    assert done.exit_code == 1
    assert "the volumes of demo-broker-0 are on no node" in said(done.stderr)
    assert "None" not in done.stderr
    assert kube.applied == []


def test_an_old_kafka_cannot_cordon(connected: Callable[..., FakeKube]) -> None:
    kube = connected(samples.ready(version="4.2.0"))

    done = RUNNER.invoke(main.app, ["disk", "cordon", "demo-broker-0", "disk0"])

    assert done.exit_code == 1
    assert "spindle disk drain demo-broker-0 disk0" in said(done.stderr)
    assert kube.applied == []


def at_risk() -> dict[str, Any]:
    return samples.ready(conditions=[samples.condition("DataAtRisk", "True", "LastReplicaAtRisk", RISK)])


@pytest.mark.parametrize("arguments", [[], ["--token", TOKEN]])
def test_a_loss_is_shown_then_accepted_by_exactly_its_token(
    connected: Callable[..., FakeKube], arguments: list[str]
) -> None:
    kube = connected(at_risk())

    done = RUNNER.invoke(
        main.app,
        ["disk", "accept-loss", "demo-broker-0", "disk0", *arguments],
        input=None if arguments else "y\n",
    )

    assert done.exit_code == 0
    assert "orders-3" in done.stdout
    ((by, body, _),) = kube.applied
    assert by == "spindle-cli-loss-of-disk0"
    assert body["spec"] == {"acceptDataLoss": {"disks": [{"name": "disk0", "token": TOKEN}]}}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [([], "n\n"), ([], ""), (["--token", "B" * 22 + ":00000000"], "")],
)
def test_a_loss_is_not_accepted_without_consent_or_with_the_token_of_another(
    connected: Callable[..., FakeKube], arguments: list[str], answer: str
) -> None:
    kube = connected(at_risk())

    done = RUNNER.invoke(
        main.app, ["disk", "accept-loss", "demo-broker-0", "disk0", *arguments], input=answer
    )

    assert done.exit_code == 1
    assert kube.applied == []


def test_a_loss_that_only_the_broker_has_room_for_is_accepted(connected: Callable[..., FakeKube]) -> None:
    kube = connected()
    kube.raw_broker["status"]["conditions"] = [
        samples.condition("DataAtRisk", "True", "LastReplicaAtRisk", RISK)
    ]

    done = RUNNER.invoke(main.app, ["disk", "accept-loss", "demo-broker-0", "disk0", "--token", TOKEN])

    assert done.exit_code == 0
    assert "orders-3" in done.stdout
    assert kube.applied[0][1]["spec"] == {"acceptDataLoss": {"disks": [{"name": "disk0", "token": TOKEN}]}}


def node_lost(reason: str) -> dict[str, Any]:
    entry = {
        "action": "RecreateBroker",
        "object": "KafkaBroker/demo-broker-0",
        "reason": reason,
        "message": "Node node1 no longer exists.",
        "unblockedBy": "Remove the taint from node node1, or shut the node down.",
    }
    return samples.ready(waiting=[entry])


def test_the_loss_of_a_node_is_accepted_by_its_name(connected: Callable[..., FakeKube]) -> None:
    kube = connected(node_lost("NodeLost"))

    done = RUNNER.invoke(main.app, ["broker", "node-lost", "demo-broker-0"], input="y\n")

    assert done.exit_code == 0
    assert "Node node1 no longer exists." in done.stdout
    assert kube.applied[0][1]["spec"] == {"acceptDataLoss": {"node": "node1"}}


def test_the_loss_of_a_node_is_told_although_the_status_has_no_room_for_its_text(
    connected: Callable[..., FakeKube],
) -> None:
    cluster = node_lost("NodeLost")
    cluster["status"]["waiting"][0] |= {"message": TEXT_LEFT_OUT, "unblockedBy": ""}
    kube = connected(cluster)

    done = RUNNER.invoke(main.app, ["broker", "node-lost", "demo-broker-0"], input="y\n")

    assert "has evidence that node node1 is lost" in said(done.stdout)
    assert TEXT_LEFT_OUT not in said(done.stdout)
    assert kube.applied[0][1]["spec"] == {"acceptDataLoss": {"node": "node1"}}


def test_a_status_without_room_for_a_broker_is_no_sign_that_its_node_is_well(
    connected: Callable[..., FakeKube],
) -> None:
    kube = connected(samples.ready(waitingMore=7))

    done = RUNNER.invoke(main.app, ["broker", "node-lost", "demo-broker-0"])

    assert done.exit_code == 1
    assert "no room for 7 of the actions" in said(done.stderr)
    assert kube.applied == []


def test_a_node_that_answers_is_not_accepted_as_lost(connected: Callable[..., FakeKube]) -> None:
    kube = connected(node_lost("NodeStillReachable"))

    done = RUNNER.invoke(main.app, ["broker", "node-lost", "demo-broker-0", "--node", "node1"])

    assert done.exit_code == 1
    assert "Remove the taint" in done.stderr
    assert kube.applied == []


def test_a_deadlock_is_resolved_by_the_token_of_its_entry(connected: Callable[..., FakeKube]) -> None:
    token = word_for("uid", ["orders-3"])
    entry = {
        "action": "RestartPod",
        "object": "KafkaCluster/demo",
        "reason": "RestartDeadlock",
        "message": "They block each other.",
        "unblockedBy": f"Choose one: `spindle broker accept-unavailable demo-broker-0 --token {token}`. Then.",
    }
    kube = connected(samples.ready(waiting=[entry]))
    line = ["broker", "accept-unavailable", "demo-broker-0"]

    refused = RUNNER.invoke(main.app, [*line, "--token", "0" * 16])
    assert refused.exit_code == 1
    assert kube.applied == []
    done = RUNNER.invoke(main.app, [*line, "--token", token])

    assert done.exit_code == 0
    assert kube.applied[0][1]["spec"] == {"acceptUnavailable": token}


@pytest.mark.parametrize(
    ("managers", "force", "outcome"),
    [
        (("kubectl-patch",), False, [True]),
        (("spindle-cli", "spindle-cli-stopped"), False, [True]),
        (("argocd-controller",), False, None),
        (("kubectl-edit", "flux"), False, None),
        (("argocd-controller",), True, [True]),
    ],
)
def test_what_a_person_set_is_replaced_and_what_a_tool_owns_is_left_to_it(
    connected: Callable[..., FakeKube], managers: tuple[str, ...], force: bool, outcome: list[bool] | None
) -> None:
    kube: Any = connected()
    kube.conflict = managers
    request = FieldRequest("KafkaBroker", "demo-broker-0", "stopped", {"maintenance": {"stopped": True}})

    if outcome is None:
        with pytest.raises(KubeError, match=r"own.* these fields.*--force"):
            write(kube, request, "u-1", force=force)
        assert kube.applied == []
    else:
        write(kube, request, "u-1", force=force)
        assert [forced for *_, forced in kube.applied] == outcome


def entry_owned_by(manager: str) -> dict[str, Any]:
    owned: dict[str, Any] = {
        "f:spec": {"f:maintenance": {"f:disks": {'k:{"name":"disk0"}': {"f:desiredState": {}}}}}
    }
    return {"manager": manager, "operation": "Update", "fieldsV1": owned}


@pytest.mark.parametrize(
    ("manager", "arguments", "code"),
    [("kubectl-patch", [], 0), ("argocd-controller", [], 1), ("argocd-controller", ["--force"], 0)],
)
def test_a_release_removes_the_entry_of_a_person_and_leaves_that_of_a_tool(
    connected: Callable[..., FakeKube], manager: str, arguments: list[str], code: int
) -> None:
    disks = [{"name": "disk1", "desiredState": "Drained"}, {"name": "disk0", "desiredState": "Drained"}]
    kube = connected(maintenance={"disks": disks})
    kube.raw_broker["metadata"]["managedFields"] = [entry_owned_by(manager)]

    done = RUNNER.invoke(main.app, ["disk", "release", "demo-broker-0", "disk0", *arguments])

    assert done.exit_code == code
    if code:
        assert "argocd-controller owns it" in said(done.stderr)
        assert kube.steps == []
    else:
        assert kube.steps == [
            {"op": "test", "path": "/spec/maintenance/disks/1/name", "value": "disk0"},
            {"op": "remove", "path": "/spec/maintenance/disks/1"},
        ]


def test_a_release_of_a_disk_that_its_broker_lost_since_removes_the_request(
    connected: Callable[..., FakeKube],
) -> None:
    kube = connected(maintenance={"disks": [{"name": "disk9", "desiredState": "Drained"}]})

    done = RUNNER.invoke(main.app, ["disk", "release", "demo-broker-0", "disk9"])

    assert done.exit_code == 0, done.output
    assert kube.steps[1] == {"op": "remove", "path": "/spec/maintenance/disks/0"}


def test_a_release_of_a_disk_in_use_changes_nothing(connected: Callable[..., FakeKube]) -> None:
    kube: Any = connected()
    request = FieldRequest("KafkaBroker", "demo-broker-0", "disk0", {})
    assert not withdraw_entry(kube, request, ("maintenance", "disks", "disk0"), force=False)
    assert kube.applied == []


NEW = {"name": "disk1", "claim": "data-disk1-demo-0", "directoryId": "B" * 22, "pv": "node1-disk1"}
USED = {
    "name": "disk0",
    "claim": "data-disk0-demo-0",
    "directoryId": "A" * 22,
    "pv": "node1-disk0",
    "pvUid": "u",
}


@pytest.fixture
def forget(
    connected: Callable[..., FakeKube], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Result, FakeObjects]]:
    """Runs `spindle volume forget` in a namespace whose broker has one disk in use, and a new one with a volume on record."""

    def run(
        line: str, answer: str | None = None, version: str = "7", **volumes: Any
    ) -> tuple[Result, FakeObjects]:
        kube = connected(disks=[USED, NEW])
        kube.raw_broker["metadata"]["resourceVersion"] = version
        fake = FakeObjects(kube, **volumes)
        monkeypatch.setattr(volume_commands, "Objects", fake)
        return RUNNER.invoke(main.app, ["volume", "forget", *line.split()], input=answer), fake

    return run


@pytest.mark.parametrize(
    ("line", "answer"), [("node1-disk1", "y\n"), ("node1-disk1 --broker demo-broker-0", None)]
)
def test_a_volume_that_is_gone_is_removed_from_the_record_of_its_disk(
    forget: Callable[..., tuple[Result, FakeObjects]], line: str, answer: str | None
) -> None:
    done, kube = forget(line, answer)

    assert done.exit_code == 0, done.output
    assert "disk1 of demo-broker-0 was to get node1-disk1" in said(done.stdout)
    assert kube.patched == [
        ("demo-broker-0", {"disks": [USED, {key: value for key, value in NEW.items() if key != "pv"}]})
    ]


@pytest.mark.parametrize(
    ("line", "answer", "changes", "sentence"),
    [
        ("node1-disk1", "n\n", {}, "Nothing was changed."),
        ("node1-disk1", "", {}, "not confirmed"),
        ("node1-disk1 --broker demo-broker-7", None, {}, "KafkaBroker demo-broker-7 has no disk with node1-disk1 on record"),
        ("node1-disk2", None, {}, "no KafkaBroker in namespace default has a disk with node1-disk2 on record"),
        ("node1-disk0", None, {}, "was bound to disk0 of demo-broker-0"),
        ("node1-disk1", None, {"node1-disk1": {"metadata": {}, "status": {"phase": "Failed"}}}, "exists (it is Failed); nothing was changed"),
        ("node1-disk1", None, {"node1-disk1": {"metadata": {"deletionTimestamp": "x"}}}, "is being deleted; nothing was changed"),
        ("node1-disk1", "y\n", {"node1-disk1": {"metadata": {}, "after": 1}}, "exists (it is Unknown)"),
        ("node1-disk1", "y\n", {"version": "6"}, "KafkaBroker demo-broker-0 changed meanwhile: run the command again"),
    ],
)  # fmt: skip
def test_a_volume_that_may_still_be_needed_stays_on_record(
    forget: Callable[..., tuple[Result, FakeObjects]],
    line: str,
    answer: str | None,
    changes: dict[str, Any],
    sentence: str,
) -> None:
    done, kube = forget(line, answer, **changes)

    assert done.exit_code == 1
    assert sentence in said(done.output)
    assert kube.patched == []


def test_owners_are_those_of_the_entry_alone() -> None:
    obj = {"metadata": {"managedFields": [entry_owned_by("a"), {"manager": "b", "fieldsV1": {"f:spec": {}}}]}}
    assert owners(obj, ["maintenance", "disks"], "disk0") == ("a",)
    assert strangers(("a", "kubectl-patch", "spindle-cli-x")) == ("a",)


@pytest.mark.parametrize(
    ("changes", "state", "code"),
    [
        ({}, "Done", 0),
        ({"takingDown": [{"pod": "demo-broker-1", "uid": "u", "nodeId": 1, "since": samples.NOW, "reason": "SpecChanged"}]}, "UnderWay", 3),
        (
            {
                "waiting": [{"action": "RestartPod", "object": "Pod/x", "reason": "RolloutStalled", "message": "It waits."}],
                "conditions": [samples.condition("Stalled", "True")],
            },
            "Stalled", 1,
        ),
        ({"observedGeneration": 0}, "UnderWay", 3),
    ],
)  # fmt: skip
def test_the_status_of_a_rollout_and_its_exit_code(
    connected: Callable[..., FakeKube], changes: dict[str, Any], state: str, code: int
) -> None:
    connected(samples.ready(**changes))

    done = RUNNER.invoke(main.app, ["rollout", "status", "-o", "json"])

    assert (json.loads(done.stdout)["state"], done.exit_code) == (state, code)


def test_a_paused_cluster_is_not_done(connected: Callable[..., FakeKube]) -> None:
    paused = samples.ready()
    paused["spec"]["paused"] = True
    connected(paused)

    done = RUNNER.invoke(main.app, ["rollout", "status"])

    assert done.exit_code == 3
    assert "spindle resume demo" in done.stdout


CHANGING = [
    "disk drain demo-broker-0 disk0",
    "disk cordon demo-broker-0 disk0",
    "disk release demo-broker-0 disk1",
    "broker stop demo-broker-0",
    "broker start demo-broker-0",
    "broker remove-first demo-broker-0",
    "rollout restart demo",
]
DRAINED = {"disks": [{"name": "disk1", "desiredState": "Drained"}]}


@pytest.mark.parametrize("line", CHANGING)
@pytest.mark.parametrize("paused", [True, False])
def test_a_request_to_a_paused_cluster_says_that_nothing_happens(
    connected: Callable[..., FakeKube], line: str, paused: bool
) -> None:
    cluster = samples.ready()
    cluster["spec"]["paused"] = paused
    connected(cluster, maintenance=DRAINED)

    done = RUNNER.invoke(main.app, line.split())

    assert done.exit_code == 0, done.output
    told = "demo is paused: nothing happens until: spindle resume demo" in done.stdout
    assert told is paused


def test_a_request_stands_although_its_cluster_may_not_be_read(
    connected: Callable[..., FakeKube], monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = connected()
    monkeypatch.setattr(kube, "cluster", Mock(side_effect=KubeError("forbidden")))

    done = RUNNER.invoke(main.app, ["broker", "stop", "demo-broker-0"])

    assert done.exit_code == 0, done.output
    assert len(kube.applied) == 1


_COMMAND = re.compile(r"(?:spindle|kubectl) [a-z][^\n]*")


@pytest.mark.parametrize("line", [*CHANGING, "pause demo", "resume demo"])
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-n", "kafka"], "-n kafka"),
        (["--context", "my east"], "--context 'my east'"),
        (["--context", "east", "--namespace", "kafka"], "-n kafka --context east"),
        ([], ""),
    ],
)
def test_a_command_to_copy_acts_in_the_same_place(
    connected: Callable[..., FakeKube], line: str, options: list[str], named: str
) -> None:
    cluster = samples.ready()
    cluster["spec"]["paused"] = True
    connected(cluster, maintenance=DRAINED)

    done = RUNNER.invoke(main.app, context_first([*line.split(), *options]))

    assert done.exit_code == 0, done.output
    offered = _COMMAND.findall(done.stdout)
    assert offered or "remove-first" in line
    for each in offered:
        assert each.endswith(named), each
        assert named or "-n" not in each.split(), each


def test_an_interrupted_question_has_the_exit_code_of_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(typer.Exit) as ended:
        consent("Really?", given=None)
    assert ended.value.exit_code == 130

    monkeypatch.setattr("typer._click.termui.visible_prompt_func", Mock(side_effect=EOFError))
    with pytest.raises(KubeError, match="not confirmed"):
        consent("Really?", given=None)


@pytest.mark.parametrize(
    "line", ["disk accept-loss demo-broker-0 disk0", "broker node-lost demo-broker-0", "takeover run demo"]
)
def test_a_question_that_nobody_can_answer_names_the_way_out(
    connected: Callable[..., FakeKube], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = Downtime(stop=70, grace=30, claims=12, disks=9)
    monkeypatch.setattr("spindle_cli.takeover.outage", Mock(return_value=down))
    monkeypatch.setattr("spindle_cli.takeover_commands.Objects", Mock())
    cluster = at_risk()
    cluster["status"]["waiting"] = node_lost("NodeLost")["status"]["waiting"]
    kube = connected(cluster)

    done = RUNNER.invoke(main.app, line.split(), input="")

    assert done.exit_code == 1
    assert "the command's --help names the option" in said(done.stderr)
    assert ("for at most 4 minutes" in said(done.stdout)) == line.startswith("takeover")
    assert kube.applied == []
