"""Listeners behind a Gateway: the Services and TLSRoutes, what brokers advertise, what is refused, and what is waited for."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.config.listeners_check import refused_listeners
from spindle.model.actions import Apply, Delete
from spindle_cli import main
from tests.model.world import World, quickstart
from tests.unit.test_listeners import change, give_addresses, listeners_of, properties, roll, running, waits

GATEWAY = {"name": "outside", "namespace": "gateways", "sectionName": "kafka"}
ROUTED: dict[str, Any] = {
    "name": "routed",
    "port": 9098,
    "type": "tlsroute",
    "parentRefs": [GATEWAY],
    "advertisedHostTemplate": "broker-{nodeId}.kafka.example.com",
    "bootstrap": {"host": "kafka.example.com"},
}
BROKERS = [f"demo-broker-{number}-routed" for number in range(3)]
ALL = [*BROKERS, "demo-bootstrap-routed"]


def answer(world: World, status: str = "True", reason: str = "Accepted", message: str = "") -> None:
    """What the controller of the Gateway writes into all TLSRoutes."""
    for route in world.all("TLSRoute"):
        conditions = [
            {"type": "Accepted", "status": status, "reason": reason, "message": message},
            {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs"},
        ]
        route["status"] = {"parents": [{"parentRef": GATEWAY, "conditions": conditions}]}
        world.put(route)


def test_each_broker_and_the_bootstrap_address_have_a_service_and_a_route_with_their_host() -> None:
    world = running(ROUTED)
    assert sorted(route["metadata"]["name"] for route in world.all("TLSRoute")) == sorted(ALL)
    route, service = world.get("TLSRoute", BROKERS[1]), world.get("Service", BROKERS[1])
    assert route["spec"] == {
        "parentRefs": [GATEWAY],
        "hostnames": ["broker-1.kafka.example.com"],
        "rules": [{"backendRefs": [{"name": BROKERS[1], "port": 9098}]}],
    }
    assert route["metadata"]["ownerReferences"][0]["kind"] == "KafkaCluster"
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["selector"][names.LABEL_NODE_ID] == "1"
    assert service["metadata"]["labels"][names.LABEL_ROUTED] == "true"
    bootstrap = world.get("TLSRoute", "demo-bootstrap-routed")["spec"]
    assert bootstrap["hostnames"] == ["kafka.example.com"]
    assert names.LABEL_NODE_ID not in world.get("Service", "demo-bootstrap-routed")["spec"]["selector"]


@pytest.mark.parametrize(("more", "port"), [({}, 443), ({"advertisedPort": 9443}, 9443)])
def test_brokers_advertise_their_host_at_the_gateways_port_from_the_first_start(
    more: dict[str, int], port: int
) -> None:
    world = running({**ROUTED, **more})
    assert properties(world, 2)["advertised.listeners"].endswith(
        f"ROUTED://broker-2.kafka.example.com:{port}"
    )
    assert properties(world, 2)["listeners"].endswith("ROUTED://:9098")
    hosts = world.get("Secret", names.tls_secret("demo", 2))["view"]["dns"]
    assert {"broker-2.kafka.example.com", "kafka.example.com"} <= set(hosts)
    assert listeners_of(world) == {"routed": f"kafka.example.com:{port}"}
    answer(world)
    assert roll(world, 5) == []
    assert waits(world) == []


def test_a_route_that_was_changed_by_hand_is_restored() -> None:
    world = running(ROUTED)
    route = world.get("TLSRoute", BROKERS[0])
    route["spec"]["hostnames"] = ["elsewhere.example.com"]
    world.put(route)
    (restored,) = [a for a in world.reconcile().actions if isinstance(a, Apply)]
    assert restored.reason == "Restored"
    assert world.get("TLSRoute", BROKERS[0])["spec"]["hostnames"] == ["broker-0.kafka.example.com"]


def test_without_the_gateway_api_the_cluster_runs_and_routes_follow_without_a_restart() -> None:
    world = World.of(listeners=[ROUTED])
    world.gateway_api = False
    world.settle()
    assert world.running("broker") == [0, 1, 2]
    assert waits(world) == [("GatewayApiMissing", "KafkaCluster/demo")]
    (told,) = world.cluster["status"]["waiting"]
    assert "Install the CRDs of the Gateway API" in told["unblockedBy"]
    assert "ROUTED" in properties(world)["listeners"]
    world.gateway_api = True
    assert roll(world, 5) == []
    assert len(world.all("TLSRoute")) == len(ALL)


def test_what_a_gateway_says_is_reported_once_for_all_routes() -> None:
    world = running(ROUTED)
    answer(world, "False", "NotAllowedByListeners", "namespace kafka is not allowed")
    world.reconcile()
    (told,) = world.cluster["status"]["waiting"]
    assert (told["reason"], told["object"]) == ("RouteNotAccepted", f"TLSRoute/{min(ALL)}")
    assert "Gateway gateways/outside, listener kafka," in told["message"]
    assert "NotAllowedByListeners: namespace kafka is not allowed" in told["message"]
    assert "allowedRoutes for TLSRoutes of namespace kafka" in told["unblockedBy"]


def test_a_gateways_reason_without_a_message_is_told_alone() -> None:
    world = running(ROUTED)
    answer(world, "False", "NoMatchingListenerHostname", "")
    world.reconcile()
    (told,) = world.cluster["status"]["waiting"]
    assert told["message"].endswith("): NoMatchingListenerHostname")


def test_a_gateway_that_does_not_answer_is_reported_and_the_answer_of_another_does_not_count() -> None:
    world = running(ROUTED)
    answer(world)
    for route in world.all("TLSRoute"):
        route["status"]["parents"][0]["parentRef"] = {**GATEWAY, "name": "another"}
        world.put(route)
    world.reconcile()
    (told,) = world.cluster["status"]["waiting"]
    assert "no controller has answered" in told["message"]


def test_routes_and_services_stay_until_no_broker_advertises_their_hosts() -> None:
    world = running(ROUTED)
    world.cluster["spec"]["listeners"] = []
    seen = []
    for _ in range(80):
        world.reconcile()
        advertised = [
            pod["metadata"]["name"]
            for pod in world.all("Pod")
            if "routed=tlsroute" in pod["metadata"]["annotations"].get(names.ANN_LISTENERS, "")
        ]
        for name in advertised:
            assert ("TLSRoute", f"{name}-routed") in world.objects
            assert ("Service", f"{name}-routed") in world.objects
        seen.append(len(advertised))
        world.breathe()
    assert (seen[0], seen[-1]) == (3, 0)
    assert world.all("TLSRoute") == ()
    assert not {name for name in ALL if ("Service", name) in world.objects}


def test_what_cannot_be_read_is_not_deleted_and_the_services_keep_the_mark() -> None:
    world = running(ROUTED)
    answer(world)
    world.cluster["spec"]["listeners"] = []
    world.unknown = frozenset({"tlsroutes"})
    roll(world)
    assert len(world.all("TLSRoute")) == len(ALL)
    assert {name for name in ALL if ("Service", name) in world.objects} == set(ALL)
    world.unknown = frozenset()
    roll(world, 10)
    assert world.all("TLSRoute") == ()
    assert not {name for name in ALL if ("Service", name) in world.objects}


def test_routes_that_cannot_be_read_are_reported_and_brokers_go_on() -> None:
    world = running(ROUTED)
    world.unknown = frozenset({"tlsroutes"})
    assert not world.reconcile().actions
    assert waits(world) == [("RoutesUnknown", "KafkaCluster/demo")]


def test_from_a_load_balancer_to_a_gateway_each_stays_as_long_as_a_broker_advertises_it() -> None:
    before = {"name": "routed", "port": 9098, "type": "loadbalancer", "bootstrap": {"host": "lb.example.com"}}
    world = running(before)
    give_addresses(world, "lb")
    roll(world)
    world.cluster["spec"]["listeners"] = [ROUTED]
    balanced = []
    for _ in range(80):
        world.reconcile()
        for number in range(3):
            pod = world.objects.get(("Pod", f"demo-broker-{number}"))
            old = pod and pod["metadata"]["annotations"][names.ANN_LISTENERS] == "routed=loadbalancer"
            if old:
                assert world.get("Service", BROKERS[number])["spec"]["type"] == "LoadBalancer"
                assert world.get("Service", "demo-bootstrap-routed")["spec"]["type"] == "LoadBalancer"
            balanced.append(bool(old))
        assert len(world.all("TLSRoute")) == len(ALL)
        world.breathe()
    assert (balanced[0], balanced[-1]) == (True, False)
    assert {world.get("Service", name)["spec"]["type"] for name in ALL} == {"ClusterIP"}
    assert listeners_of(world) == {"routed": "kafka.example.com:443"}


def test_from_a_gateway_to_a_load_balancer_the_routes_stay_as_long_as_a_broker_advertises_them() -> None:
    world = running(ROUTED)
    change(world, ROUTED, type="loadbalancer", parentRefs=None)
    world.reconcile()
    assert len(world.all("TLSRoute")) == len(ALL)
    marked: dict[str, bool] = {}
    for _ in range(80):
        applied = [a.object for a in world.reconcile().actions if isinstance(a, Apply)]
        marked |= {
            each["metadata"]["name"]: names.LABEL_ROUTED in each["metadata"]["labels"]
            for each in applied
            if each["kind"] == "Service"
        }
        world.breathe()
    assert world.all("TLSRoute") == ()
    assert {world.get("Service", name)["spec"]["type"] for name in ALL} == {"LoadBalancer"}
    assert marked == dict.fromkeys(ALL, False)


def test_a_bootstrap_address_that_is_removed_takes_its_route_with_it() -> None:
    world = running(ROUTED)
    change(world, ROUTED, bootstrap=None)
    gone = [a.name for a in world.reconcile().actions if isinstance(a, Delete)]
    assert gone == ["demo-bootstrap-routed"]
    world.settle()
    assert {route["metadata"]["name"] for route in world.all("TLSRoute")} == set(BROKERS)
    assert ("Service", "demo-bootstrap-routed") not in world.objects


def test_a_route_of_another_owner_is_left_alone() -> None:
    foreign = {
        "kind": "TLSRoute",
        "metadata": {
            "name": BROKERS[0],
            "namespace": "kafka",
            "uid": "other",
            "labels": {names.LABEL_CLUSTER: "demo"},
        },
        "spec": {"hostnames": ["theirs.example.com"]},
    }
    world = World.of(listeners=[ROUTED])
    world.put(foreign)
    world.settle()
    assert world.get("TLSRoute", BROKERS[0])["spec"] == foreign["spec"]
    assert ("NameConflict", f"TLSRoute/{BROKERS[0]}") in waits(world)
    assert world.running("broker") == [0, 1, 2]


def refusals(*listeners: dict[str, Any], namespace: str | None = None) -> set[str]:
    spec = KafkaClusterSpec.model_validate(quickstart(listeners=list(listeners))["spec"])
    return {each.field for each in refused_listeners(spec, namespace=namespace)}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tls": False}, "tls"),
        ({"parentRefs": None}, "parentRefs"),
        ({"advertisedHostTemplate": None}, "advertisedHostTemplate"),
        ({"advertisedHostTemplate": "10.0.0.{nodeId}"}, "advertisedHostTemplate"),
        ({"bootstrap": {"host": "10.0.0.1"}}, "bootstrap.host"),
        ({"bootstrap": {"host": "broker-7.kafka.example.com"}}, "bootstrap.host"),
    ],
)
def test_what_a_gateway_cannot_route_is_refused(changes: dict[str, Any], field: str) -> None:
    assert refusals({**ROUTED, **changes}) == {f"spec.listeners[routed].{field}"}


def test_hosts_that_differ_from_those_of_brokers_are_taken() -> None:
    assert refusals(ROUTED) == set()
    assert refusals({**ROUTED, "bootstrap": {"host": "broker-x.kafka.example.com"}}) == set()
    twice = "b{nodeId}.rack{nodeId}.example.com"
    assert (
        refusals({**ROUTED, "advertisedHostTemplate": twice, "bootstrap": {"host": "b1.rack2.example.com"}})
        == set()
    )
    assert (
        refusals({**ROUTED, "advertisedHostTemplate": twice, "bootstrap": {"host": "b1.rack1.example.com"}})
        != set()
    )


@pytest.mark.parametrize(
    ("gateway", "refused"),
    [
        (GATEWAY, True),
        ({"name": "outside", "namespace": "gateways"}, True),
        ({**GATEWAY, "sectionName": "other"}, False),
        ({**GATEWAY, "name": "inner"}, False),
    ],
)
def test_two_listeners_need_hosts_of_their_own_on_one_gateway(gateway: dict[str, str], refused: bool) -> None:
    second = {**ROUTED, "name": "second", "port": 9099, "parentRefs": [gateway]}
    assert bool(refusals(ROUTED, second)) is refused
    del second["bootstrap"]
    assert not refusals(ROUTED, {**second, "advertisedHostTemplate": "b-{nodeId}.example.com"})


@pytest.mark.parametrize(
    ("namespaces", "refused"),
    [
        ((None, "kafka"), True),
        (("kafka", None), True),
        ((None, None), True),
        ((None, "gateways"), False),
    ],
)
def test_a_gateway_without_a_namespace_is_the_one_in_the_clusters_own(
    namespaces: tuple[str | None, str | None], refused: bool
) -> None:
    first, second = (
        {"name": "outside"} | ({"namespace": each} if each is not None else {}) for each in namespaces
    )
    both = (
        {**ROUTED, "parentRefs": [first]},
        {**ROUTED, "name": "second", "port": 9099, "parentRefs": [second]},
    )
    assert bool(refusals(*both, namespace="kafka")) is refused


def test_the_operator_knows_the_namespace_of_gateways_that_name_none() -> None:
    world = running({**ROUTED, "parentRefs": [{"name": "outside"}]})
    assert world.cluster["metadata"]["namespace"] == "kafka"
    second = {
        **ROUTED,
        "name": "second",
        "port": 9099,
        "parentRefs": [{"name": "outside", "namespace": "kafka"}],
    }
    world.cluster["spec"]["listeners"].append(second)
    world.reconcile()
    (told,) = [each for each in world.cluster["status"]["waiting"] if "second" in each["message"]]
    assert "is a host of listener routed, too, on the same Gateway" in told["message"]
    assert len(world.all("TLSRoute")) == len(ALL)


def test_preview_knows_it_from_the_file_or_the_option(tmp_path: Path) -> None:
    refs: list[list[dict[str, str]]] = [[{"name": "outside"}], [{"name": "outside", "namespace": "kafka"}]]
    listeners = [
        {**ROUTED, "name": f"l{at}", "port": 9098 + at, "parentRefs": each} for at, each in enumerate(refs)
    ]
    made = quickstart(listeners=listeners)
    for metadata, options in (({"namespace": "kafka"}, []), ({}, ["-n", "kafka"])):
        file = tmp_path / "demo.yaml"
        file.write_text(yaml.safe_dump({**made, "metadata": {"name": "demo", **metadata}}))
        done = CliRunner().invoke(main.app, ["preview", str(file), *options])
        assert done.exit_code == 1
        assert "is a host of listener l0, too, on the same Gateway" in " ".join(done.output.split())
