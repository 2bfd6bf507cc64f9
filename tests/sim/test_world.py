"""The parts of the simulation except Kafka, each by itself."""

import ast
import asyncio
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest

from spindle.api import names
from spindle.reconcile.wait_kinds import REASONS
from tests.reasons import ROOT, reasons
from tests.sim import fields, life, rules
from tests.sim.api import NAMESPACE, Api, Refused, Request
from tests.sim.controllers import Controllers
from tests.sim.kafka import KafkaFault, KafkaSim
from tests.sim.kafka.state import Broker, Part
from tests.sim.kernel import MOST_EVENTS, EndlessError, Kernel, Timer
from tests.sim.loop import Clock, Process, simulated_time
from tests.sim.people import WAYS


def test_the_simulated_person_knows_what_to_do_about_every_reason() -> None:
    code = reasons().union(*REASONS.values())

    assert len(code) > 100
    assert sorted(code - WAYS.keys()) == []


@cache
def _texts() -> frozenset[str]:
    """Every string of core, with `…` for each value that is filled in."""
    found = set()
    for path in (ROOT / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
                found.add("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found)


@pytest.mark.parametrize(
    "phrase",
    [
        "slot of …", "a slot", "delete the pod", "FILE, with … in FILE", " without a target for … (the tool", "spindle broker stop …", "add a broker",
        "accept-unavailable … --token …", "write … as the token", "kubectl annotate pvc … --overwrite …`", "directory id …. ", "delete pod …", "`kubectl delete pod --grace-period=1`",
        'spec.acceptDataLoss.disks of KafkaBroker …: {"name": "…", "token": "…"}', "full",
    ],
)  # fmt: skip
def test_what_the_simulated_person_reads_stands_in_messages(phrase: str) -> None:
    """`people.py` finds by these phrases what to do: if a message changes, change the phrase there, too."""
    assert any(phrase in text for text in _texts())


@pytest.mark.parametrize("deleted", [False, True])
def test_brokers_of_a_cluster_that_a_person_deletes_may_go_down(deleted: bool) -> None:
    kernel = Kernel(1)
    cluster: dict[str, Any] = {"metadata": {"deletionTimestamp": "now"} if deleted else {}}
    part = {
        "topic": "t", "partition": 0, "leader": 0, "replicas": [0, 1, 2], "isr": [0, 1], "min_isr": 2, "rf": 3,
    }  # fmt: skip
    world: Any = SimpleNamespace(
        kernel=kernel,
        api=Api(kernel),
        kafka=SimpleNamespace(),
        cluster=lambda: cluster,
        kubelets=SimpleNamespace(runs={"u": SimpleNamespace(kafka=True, files=SimpleNamespace(disks={}))}),
        operators=[],
        let_go=set(),
        broken=[],
        truth=lambda what: [part] if what == "partitions" else [],
        answers=lambda broker: broker != 2,
        is_stopping=lambda broker: False,
    )
    rules.Judge(world)
    labels = {"spindle.dev/role": "broker", "spindle.dev/node-id": "0"}
    world.api.on_down({"metadata": {"uid": "u", "labels": labels}}, "spindle-operator", "deletion")
    assert bool(world.broken) is not deleted


@pytest.fixture
def api() -> Api:
    return Api(Kernel(1))


def _apply(api: Api, body: dict[str, Any], who: str, *, status: bool = False) -> dict[str, Any]:
    meta = body["metadata"]
    path = f"/apis/spindle.dev/v1alpha1/namespaces/{NAMESPACE}/kafkabrokers/{meta['name']}" + (
        "/status" if status else ""
    )
    return api.handle(
        Request(who, "PATCH", path, {"fieldManager": who}, body, "application/apply-patch+yaml")
    )


def _broker(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaBroker",
        "metadata": {"name": "b", "namespace": NAMESPACE},
        "spec": spec,
    }


def test_an_apply_takes_back_what_it_no_longer_names_and_nothing_of_others(api: Api) -> None:
    _apply(
        api,
        _broker(id=1, rack="a", disks=[{"name": "disk0", "mode": "Active"}, {"name": "disk1"}]),
        "operator",
    )
    _apply(api, _broker(maintenance={"disks": [{"name": "disk0", "desiredState": "Drained"}]}), "person")

    after = _apply(api, _broker(id=1, disks=[{"name": "disk1", "mode": "Absent"}]), "operator")

    assert after["spec"] == {
        "id": 1,
        "disks": [{"name": "disk1", "mode": "Absent"}],
        "maintenance": {"disks": [{"name": "disk0", "desiredState": "Drained"}]},
    }


def test_what_was_created_stays_until_an_apply_gives_it_another_value(api: Api) -> None:
    api.handle(
        Request(
            "operator",
            "POST",
            f"/apis/spindle.dev/v1alpha1/namespaces/{NAMESPACE}/kafkabrokers",
            {},
            _broker(id=1, rack="a", node="n"),
        )
    )
    _apply(api, _broker(id=1, rack="b"), "operator")

    after = _apply(api, _broker(id=1), "operator")

    assert after["spec"] == {"id": 1, "node": "n"}


def test_statuses_of_two_managers_do_not_meet(api: Api) -> None:
    api.put(_broker(id=1))
    status = {
        **_broker(),
        "status": {"observed": {"node": "n", "disks": [{"name": "disk0", "verdict": "Healthy"}]}},
    }
    _apply(api, status, "agent", status=True)
    _apply(api, {**_broker(), "status": {"phase": "x"}}, "operator", status=True)

    after = _apply(
        api, {**_broker(), "status": {"observed": {"node": "n", "disks": []}}}, "agent", status=True
    )

    assert after["status"] == {"observed": {"node": "n", "disks": []}, "phase": "x"}


def test_a_write_for_another_version_or_uid_is_refused(api: Api) -> None:
    live = api.put(_broker(id=1))
    path = f"/apis/spindle.dev/v1alpha1/namespaces/{NAMESPACE}/kafkabrokers/b"
    for meta, status in (({"resourceVersion": "1"}, 409), ({"uid": "other"}, 422)):
        with pytest.raises(Refused) as refused:
            api.handle(
                Request("operator", "PATCH", path, {}, {"metadata": meta}, "application/merge-patch+json")
            )
        assert refused.value.status == status
    assert api.get("KafkaBroker", "b") == live


def _pod(name: str, *, ready: bool) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "volumes": []}, "status": {"phase": "Running", "conditions": [condition]},
    }  # fmt: skip


def _evict(api: Api, pod: dict[str, Any], **wanted: str) -> int:
    """Status of the response to an eviction."""
    meta = pod["metadata"]
    body = {
        "metadata": {"name": meta["name"]},
        "deleteOptions": {"preconditions": {"uid": meta["uid"], **wanted}},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{meta['name']}/eviction"
    try:
        api.handle(Request("operator", "POST", path, {}, body))
    except Refused as refused:
        return refused.status
    return 201


def _budget(api: Api, least: int, **spec: str) -> None:
    spec_ = {"minAvailable": least, "selector": {"matchLabels": {"a": "b"}}, **spec}
    meta = {"name": "x", "namespace": NAMESPACE}
    api.put({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec_})


def test_an_eviction_needs_the_budget_the_uid_and_the_version(api: Api) -> None:
    pods = [api.put(_pod(name, ready=True)) for name in ("p0", "p1")]
    _budget(api, 1)

    assert _evict(api, pods[0], resourceVersion="1") == 409
    assert _evict(api, pods[0], uid="other") == 409
    assert _evict(api, pods[0]) == 201
    assert _evict(api, pods[1]) == 429


@pytest.mark.parametrize(
    ("least", "policy", "status"),
    [(2, "IfHealthyBudget", 201), (3, "IfHealthyBudget", 429), (3, "AlwaysAllow", 201)],
)
def test_a_pod_that_is_not_ready_goes_while_enough_others_are(
    api: Api, least: int, policy: str, status: int
) -> None:
    sick, *_ = [api.put(_pod(name, ready=name != "p0")) for name in ("p0", "p1", "p2")]
    _budget(api, least, unhealthyPodEvictionPolicy=policy)

    assert _evict(api, sick) == status


@pytest.mark.parametrize("node", ["node1", None], ids=["scheduled", "pending"])
def test_a_claim_in_use_stays_until_its_scheduled_pod_is_gone(node: str | None) -> None:
    kernel = Kernel(1)
    api = Api(kernel)
    Controllers(kernel, api)
    claim = api.put(
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": NAMESPACE},
            "spec": {"storageClassName": "local-disks"}, "status": {"phase": "Pending"},
        }
    )  # fmt: skip
    pod = _pod("p", ready=True)
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    pod["spec"]["nodeName"] = node
    pod = api.put(pod)
    api.remove(claim)
    kernel.run_until(kernel.now + 5)
    assert (api.get("PersistentVolumeClaim", "c") is not None) is (node is not None)

    api.remove(pod, grace=0)
    kernel.run_until(kernel.now + 5)

    assert api.get("PersistentVolumeClaim", "c") is None


def test_what_loses_its_owner_goes_with_it() -> None:
    kernel = Kernel(1)
    api = Api(kernel)
    Controllers(kernel, api)
    owner = api.put(_broker(id=1))
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "m",
            "namespace": NAMESPACE,
            "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
        },
    }
    api.put(owned)
    api.remove(owner)
    kernel.run_until(kernel.now + 5)

    assert api.get("ConfigMap", "m") is None


def test_a_list_comes_in_pages(api: Api) -> None:
    for index in range(5):
        api.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"m{index}", "namespace": NAMESPACE},
            }
        )
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    first = api.handle(Request("operator", "GET", path, {"limit": "3"}))
    second = api.handle(
        Request("operator", "GET", path, {"limit": "3", "continue": first["metadata"]["continue"]})
    )

    assert [len(page["items"]) for page in (first, second)] == [3, 2]


def test_processes_have_clocks_of_their_own_and_die_at_once() -> None:
    kernel, seen = Kernel(1), list[tuple[str, float]]()

    async def work(name: str) -> None:
        import time

        for _ in range(3):
            await asyncio.sleep(1.0)
            seen.append((name, time.time() - kernel.now))

    with simulated_time(kernel):
        ahead, behind = Process(kernel, "a", lambda: 60.0), Process(kernel, "b", lambda: -60.0)
        ahead.start(work("a"))
        behind.start(work("b"))
        kernel.run_until(kernel.now + 1.5)
        behind.kill()
        kernel.run_until(kernel.now + 5.0)
        assert Clock.skew == 0.0

    assert sorted(seen) == [("a", 60.0)] * 3 + [("b", -60.0)]


def test_blocking_calls_wait_for_events_and_end_with_their_process() -> None:
    from tests.sim.loop import Fiber

    kernel, seen = Kernel(1), list[str]()

    def call() -> str:
        assert Fiber.running is not None
        Fiber.running.sleep(2.0)
        seen.append("woke")
        return "done"

    with simulated_time(kernel):
        process = Process(kernel, "a")
        with process.current():
            first = process.fiber(call)
        kernel.run_until(kernel.now + 3.0)
        with process.current():
            process.fiber(call)
        kernel.run_until(kernel.now + 1.0)
        process.kill()
        kernel.run_until(kernel.now + 5.0)

    assert first.result() == "done"
    assert seen == ["woke"]


class _Changing(Kernel):
    def comes_next(self, timer: Timer) -> bool:
        return False


@pytest.mark.parametrize("seed", range(8))
def test_a_blocking_call_that_goes_on_without_a_change_of_threads_sees_the_same_life(seed: int) -> None:
    from tests.sim.loop import Fiber

    def lived(*, always_change: bool) -> tuple[list[tuple[float, int, str]], int]:
        kernel, seen = (_Changing if always_change else Kernel)(seed), list[tuple[float, int, str]]()

        def say(who: str) -> None:
            seen.append((kernel.now, kernel.events, who))

        def call(who: str) -> None:
            for _ in range(20):
                assert Fiber.running is not None
                Fiber.running.sleep(kernel.rng.choice((0.0, 0.01, 0.3)))
                say(f"{who} at {Clock.now()}")

        with simulated_time(kernel):
            processes = [Process(kernel, "a", lambda: 60.0), Process(kernel, "b")]
            for process in processes:
                with process.current():
                    process.fiber(partial(call, process.name))
            for k in range(30):
                kernel.call_later(3.0 * kernel.rng.random(), partial(say, f"timer {k}"))
            processes[0].pause(0.4)
            kernel.call_later(1.2, processes[1].kill)
            for _ in range(40):
                kernel.run_until(kernel.now + 0.1)
        return seen, kernel.events

    assert lived(always_change=False) == lived(always_change=True)


def test_owners_are_written_so_that_they_can_be_read_back() -> None:
    owners: fields.Owners = {
        ("operator", "Apply "): {("spec", "id"), ("spec", "disks", ("[]", "disk1"), "mode")},
        ("agent", "Apply status"): {("status", "observed", "node")},
    }
    assert fields.reassigned(fields.managed(owners)) == owners
    assert fields.managed(owners) == fields.managed(owners)


def test_fields_of_lists_that_are_maps_go_by_their_keys() -> None:
    assert fields.list_maps("KafkaBroker")["spec", "disks"] == ("name",)
    assert ("spec", "moves") not in fields.list_maps("KafkaBroker")


def test_what_goes_round_in_a_circle_is_ended() -> None:
    kernel = Kernel(1, events=MOST_EVENTS - 50)

    def again() -> None:
        kernel.call_later(0.0, again)

    again()
    with pytest.raises(EndlessError, match="3,000,000 events"):
        kernel.run_until(kernel.now + 1.0)


@pytest.mark.parametrize(
    ("target", "changed", "broken"),
    [
        pytest.param([0, 3], {}, [], id="one for another"),
        pytest.param([3, 4], {}, ["(f6)"], id="two at once"),
        pytest.param([0, 3], {"elr": [3]}, ["(f1)"], id="empty, and may lead"),
        pytest.param([3, 4], {"reassigned": True}, [], id="somebody else had it changed"),
    ],
)
def test_the_judge_looks_at_what_spindle_reassigns(
    target: list[int], changed: dict[str, Any], broken: list[str]
) -> None:
    world = life.World(life.plot(5))
    part = Part("t", 0, "id", [0, 1], [0, 1], 0, **changed)
    world.kafka.on_reassign(part, target)
    assert [text[:4] for text in world.broken] == broken


def test_the_judge_knows_who_is_forgotten_too_early() -> None:
    world = life.World(life.plot(5))
    world.kafka.parts["t", 0] = Part("t", 0, "id", [0, 1], [0], 0, elr=[2])
    for broker in (1, 2, 3):
        world.kafka.on_unregister(broker)
    assert [text[:4] for text in world.broken] == ["(f5)", "(f5)"]


@pytest.mark.parametrize(
    ("claim_on", "by_spindle", "judged"),
    [
        pytest.param("node1", False, True, id="its volume is still there"),
        pytest.param(None, True, True, id="Spindle deleted its claim"),
        pytest.param("node2", False, False, id="a person deleted its claim"),
    ],
)
def test_the_judge_knows_who_leaves_a_node_without_its_disks(
    claim_on: str | None, by_spindle: bool, judged: bool
) -> None:
    world = life.World(life.plot(5))
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-disk0-demo-0",
            "namespace": NAMESPACE,
            "uid": "c",
            "annotations": {names.ANN_NODE_ID: "0"},
        },
        "spec": {"volumeName": "v"},
    }
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [claim_on]}]}
    ]
    if by_spindle:
        world.api.on_write("spindle-operator", "DELETE", claim, None)
    elif claim_on:
        world.api.put(claim)
        world.api.put(
            {
                "kind": "PersistentVolume",
                "metadata": {"name": "v", "uid": "v"},
                "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
            }
        )
    spec = {"id": 0, "node": "node1", "disks": [{"name": "disk0", "claim": "data-disk0-demo-0"}]}
    before = {
        "kind": "KafkaBroker",
        "metadata": {"name": "demo-broker-0", "namespace": NAMESPACE, "uid": "b"},
        "spec": spec,
    }
    world.api.on_write("spindle-operator", "PATCH", before, {**before, "spec": {**spec, "node": "node2"}})
    assert any(text.startswith("(f14)") for text in world.broken) is judged


def _brokers(**states: str) -> KafkaSim:
    """Brokers by name (``b0``): on which rack, and whether fenced or leaving."""
    kafka = KafkaSim(Kernel(1), elr=True, metadata_version=30)
    for number, (_, state) in enumerate(sorted(states.items())):
        rack, _, how = state.partition(" ")
        found = Broker(
            number, rack, 1, number, {f"d{number}"}, fenced=how == "fenced", leaving=how == "leaving"
        )
        kafka.brokers[number] = found
    return kafka


def test_a_new_topic_is_led_by_one_that_is_there_and_by_nobody_that_leaves() -> None:
    kafka = _brokers(b0="a leaving", b1="b", b2="c fenced", b3="b")
    assert kafka.placement(2, 3) == [[1, 2, 3], [3, 2, 1]], (
        "fenced ones are a last resort, but racks count more"
    )
    (part,) = kafka.make_topic("t", [[2, 1]], {})
    assert (part.isr, part.leader) == ([1], 1)
    with pytest.raises(KafkaFault, match="INVALID_REPLICATION_FACTOR"):
        kafka.placement(1, 4)


@pytest.mark.parametrize("state", ["a fenced", "a leaving"])
def test_kafka_makes_no_partition_that_nobody_can_lead(state: str) -> None:
    kafka = _brokers(b0=state)
    with pytest.raises(KafkaFault, match="INVALID_REPLICATION_FACTOR"):
        kafka.placement(1, 1)
    with pytest.raises(KafkaFault, match="INVALID_REPLICATION_FACTOR"):
        kafka.make_topic("t", [[0]], {})
    assert not kafka.parts
