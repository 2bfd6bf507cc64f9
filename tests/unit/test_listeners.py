"""Listeners: what brokers are told, where clients find them, and what is waited for."""

from typing import Any, get_args

import pytest

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.listeners import Listener
from spindle.listeners.broker_listener import BrokerListener
from spindle.listeners.external_types import EXTERNAL_TYPES
from spindle.manifests.services import broker_listener_service
from spindle.model.actions import Evict, IssueCertificate
from tests.model.world import World

INSIDE = {"name": "inside", "port": 9095, "auth": "scram"}
NODES = {"name": "nodes", "port": 9096, "type": "nodeport"}
CLOUD = {
    "name": "cloud",
    "port": 9097,
    "type": "loadbalancer",
    "auth": "none",
    "annotations": {"kind": "nlb"},
}


def running(*listeners: dict[str, Any]) -> World:
    world = World.of(listeners=list(listeners))
    for index, node in enumerate(world.all("Node")):
        node["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{index + 1}"}]
        world.put(node)
    world.settle()
    return world


def properties(world: World, broker: int = 0) -> dict[str, str]:
    text = world.get("ConfigMap", f"demo-broker-{broker}-config")["data"]["server.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


def give_ports(world: World) -> None:
    """What the API server does for Services of type NodePort."""
    for service in world.all("Service"):
        if service["spec"]["type"] == "NodePort":
            number = 30000 + int(service["spec"]["selector"][names.LABEL_NODE_ID])
            service["spec"]["ports"][0]["nodePort"] = number
            world.put(service)


def give_addresses(world: World, host: str) -> None:
    for service in world.all("Service"):
        if service["spec"]["type"] == "LoadBalancer":
            ingress = [{"hostname": f"{service['metadata']['name']}.{host}"}]
            service["status"] = {"loadBalancer": {"ingress": ingress}}
            world.put(service)


def waits(world: World) -> list[tuple[str, str]]:
    return [(w["reason"], w["object"]) for w in world.cluster["status"]["waiting"]]


def listeners_of(world: World) -> dict[str, str]:
    return {each["name"]: each["bootstrap"] for each in world.cluster["status"].get("listeners", ())}


def roll(world: World, passes: int = 80) -> list[str]:
    evicted: list[str] = []
    for _ in range(passes):
        evicted += [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
        world.breathe()
    return evicted


def test_an_internal_listener_stands_from_the_first_start() -> None:
    world = running(INSIDE)
    found = properties(world)
    host = "demo-broker-0.demo-brokers.kafka.svc"
    assert found["listeners"] == "REPLICATION://:9091,CLIENT://:9092,INSIDE://:9095"
    assert found["advertised.listeners"].endswith(f"INSIDE://{host}:9095")
    assert found["listener.security.protocol.map"].endswith("CLIENT:SSL,INSIDE:SASL_SSL")
    assert found["listener.name.inside.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert found["listener.name.inside.ssl.client.auth"] == "none"
    assert found["ssl.client.auth"] == "required"
    ports = world.get("Pod", "demo-broker-0")["spec"]["containers"][0]["ports"]
    assert {"name": "inside", "containerPort": 9095} in ports
    assert listeners_of(world) == {"inside": "demo-bootstrap-inside.kafka.svc:9095"}
    assert not world.reconcile().actions


@pytest.mark.parametrize("service", ["demo-bootstrap", "demo-bootstrap-inside"])
def test_certificates_have_all_names_under_which_a_pod_finds_the_bootstrap_services(service: str) -> None:
    world = running(INSIDE)
    secret = world.get("Secret", names.tls_secret("demo", 0))
    wanted = {service, f"{service}.kafka", f"{service}.kafka.svc", f"{service}.kafka.svc.cluster.local"}
    assert wanted <= set(secret["view"]["dns"])


def test_controllers_know_nothing_of_it_and_are_not_restarted() -> None:
    world = running()
    world.cluster["spec"]["listeners"] = [INSIDE]
    assert sorted(roll(world)) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]


def test_a_node_port_is_told_with_the_address_of_the_brokers_node() -> None:
    world = running(NODES)
    assert {reason for reason, _ in waits(world)} == {"AddressPending"}
    assert "NODES" not in properties(world)["listeners"]
    give_ports(world)
    assert sorted(roll(world)) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
    for broker in world.all("KafkaBroker"):
        number = broker["spec"]["id"]
        node = world.get("Node", broker["spec"]["node"])
        address = node["status"]["addresses"][0]["address"]
        assert properties(world, number)["advertised.listeners"].endswith(
            f"NODES://{address}:{30000 + number}"
        )
        names_of_it = world.get("Secret", f"demo-broker-{number}-tls")["view"]["dns"]
        assert address in names_of_it
    assert waits(world) == []
    assert listeners_of(world)["nodes"].count(",") == 2


@pytest.mark.parametrize("address", ["a,b", "x" * 9000, "a b", "a\nb", ""])
def test_an_address_that_is_none_is_not_told(address: str) -> None:
    world = running(NODES)
    give_ports(world)
    for node in world.all("Node"):
        node["status"]["addresses"].insert(0, {"type": "ExternalIP", "address": address})
        world.put(node)
    world.settle()
    assert "10.0.0." in properties(world)["advertised.listeners"]
    assert "10.0.0." in listeners_of(world)["nodes"]


def test_a_label_of_the_node_can_be_the_address() -> None:
    world = running({**NODES, "addressLabel": "outside"})
    for node in world.all("Node"):
        node["metadata"]["labels"]["outside"] = f"{node['metadata']['name']}.example.org"
        world.put(node)
    give_ports(world)
    roll(world)
    assert ".example.org:30000" in listeners_of(world)["nodes"]


def test_a_load_balancer_is_waited_for_with_a_reason_and_holds_nobody_back() -> None:
    world = running(CLOUD)
    assert world.running("broker") == [0, 1, 2]
    assert waits(world) == [("AddressPending", f"Service/demo-broker-{n}-cloud") for n in range(3)]
    assert listeners_of(world) == {"cloud": ""}
    give_addresses(world, "lb")
    assert sorted(roll(world)) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
    assert listeners_of(world)["cloud"].split(",")[0] == "demo-broker-0-cloud.lb:9097"
    assert waits(world) == []


def test_an_address_that_is_not_told_any_more_stays_as_it_was() -> None:
    world = running(CLOUD, NODES)
    give_ports(world)
    give_addresses(world, "lb")
    roll(world)
    before = properties(world)
    for service in world.all("Service"):
        service.pop("status", None)
        world.put(service)
    for node in world.all("Node"):
        node["status"].pop("addresses")
        world.put(node)
    assert roll(world, 5) == []
    assert properties(world) == before


def test_without_services_nothing_is_changed_where_addresses_stand_in_them() -> None:
    world = running(CLOUD)
    give_addresses(world, "lb")
    roll(world)
    world.unknown = frozenset({"services"})
    assert not world.reconcile().actions
    assert ("CannotRead", "KafkaCluster/demo") in waits(world)


def test_an_address_that_changed_is_told_anew_with_a_certificate_for_it() -> None:
    world = running(CLOUD)
    give_addresses(world, "lb")
    roll(world)
    give_addresses(world, "other")
    issued = [a.dns_names for a in world.reconcile().actions if isinstance(a, IssueCertificate)]
    assert any("demo-broker-0-cloud.other" in hosts for hosts in issued)
    assert sorted(roll(world)) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]


def test_services_of_a_listener_that_is_gone_go_too_and_no_others() -> None:
    world = running(CLOUD, INSIDE)
    assert len(world.all("Service")) == 7
    world.cluster["spec"]["listeners"] = []
    roll(world)
    assert {s["metadata"]["name"] for s in world.all("Service")} == {
        "demo-controllers",
        "demo-brokers",
        "demo-bootstrap",
    }
    assert "INSIDE" not in properties(world)["listeners"]


def ports_of(world: World, name: str) -> dict[str, tuple[int, str]]:
    ports = world.get("Service", name)["spec"]["ports"]
    return {port["name"]: (port["port"], port["targetPort"]) for port in ports}


def open_to_all(world: World) -> set[int]:
    """Ports of brokers that the NetworkPolicies leave open."""
    rules = [rule for policy in world.all("NetworkPolicy") for rule in policy["spec"]["ingress"]]
    return {port["port"] for rule in rules if "from" not in rule for port in rule["ports"]}


def change(world: World, listener: dict[str, Any], **to: Any) -> None:
    world.cluster["spec"]["listeners"] = [
        {k: v for k, v in {**listener, **to}.items() if v is not None}
        if each["name"] == listener["name"]
        else each
        for each in world.cluster["spec"]["listeners"]
    ]


def test_with_another_port_clients_are_led_to_both_while_brokers_are_restarted() -> None:
    world = running(INSIDE)
    world.cluster["spec"]["security"] = {"networkPolicies": True}
    assert ports_of(world, "demo-bootstrap-inside") == {"inside": (9095, "inside")}
    change(world, INSIDE, port=9099)
    both = {"inside": (9099, "inside"), "inside-9095": (9095, "inside")}
    seen = []
    for _ in range(80):
        world.reconcile()
        old = any(
            {"name": "inside", "containerPort": 9095} in p["spec"]["containers"][0]["ports"]
            for p in world.all("Pod")
        )
        if old:
            assert ports_of(world, "demo-bootstrap-inside") == both
            assert {9095, 9099} <= open_to_all(world)
        seen.append(old)
        world.breathe()
    assert seen[0]
    assert not seen[-1]
    assert ports_of(world, "demo-bootstrap-inside") == {"inside": (9099, "inside")}
    assert 9095 not in open_to_all(world)


def test_with_another_port_of_the_brokers_nodes_keep_theirs() -> None:
    world = running(NODES)
    give_ports(world)
    roll(world)
    before = listeners_of(world)
    change(world, NODES, port=9099)
    assert sorted(roll(world)) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
    assert listeners_of(world) == before
    assert properties(world)["listeners"].endswith("NODES://:9099")
    assert ports_of(world, "demo-broker-0-nodes") == {"nodes": (9096, "nodes")}


def test_a_load_balancer_has_the_former_port_until_its_broker_is_restarted() -> None:
    world = running(CLOUD)
    give_addresses(world, "lb")
    roll(world)
    change(world, CLOUD, port=9099)
    world.reconcile()
    assert ports_of(world, "demo-broker-0-cloud") == {"cloud": (9099, "cloud"), "cloud-9097": (9097, "cloud")}
    roll(world)
    assert ports_of(world, "demo-broker-0-cloud") == {"cloud": (9099, "cloud")}


@pytest.mark.parametrize(("before", "after"), [("internal", "nodeport"), ("nodeport", "internal")])
def test_with_another_type_the_former_services_stay_until_the_brokers_are_restarted(
    before: str, after: str
) -> None:
    listener = {**NODES, "type": before}
    world = running(listener)
    give_ports(world)
    roll(world)
    change(world, listener, type=after)
    former = {"internal": "demo-bootstrap-nodes", "nodeport": "demo-broker-2-nodes"}[before]
    kept = []
    for _ in range(80):
        world.reconcile()
        give_ports(world)
        brokers = [p for p in world.all("Pod") if "broker" in p["metadata"]["name"]]
        mine = [p for p in brokers if before == "internal" or p["metadata"]["name"] == "demo-broker-2"]
        runs_it = any(
            p["metadata"]["annotations"].get(names.ANN_LISTENERS) == f"nodes={before}" for p in mine
        )
        if runs_it:
            assert ("Service", former) in world.objects
        kept.append(runs_it)
        world.breathe()
    assert kept[0]
    assert not kept[-1]
    assert ("Service", former) not in world.objects


def test_a_load_balancer_stays_until_its_broker_tells_the_nodes_port() -> None:
    world = running(CLOUD)
    give_addresses(world, "lb")
    roll(world)
    for service in world.all("Service"):
        if service["spec"]["type"] == "LoadBalancer":
            service["spec"]["ports"][0]["nodePort"] = 31000
            world.put(service)
    change(world, CLOUD, type="nodeport", annotations=None)
    for _ in range(80):
        world.reconcile()
        for number in range(3):
            pod = world.objects.get(("Pod", f"demo-broker-{number}"))
            if pod and pod["metadata"]["annotations"][names.ANN_LISTENERS] == "cloud=loadbalancer":
                assert world.get("Service", f"demo-broker-{number}-cloud")["spec"]["type"] == "LoadBalancer"
        world.breathe()
    assert world.get("Service", "demo-broker-0-cloud")["spec"]["type"] == "NodePort"
    assert ":31000" in listeners_of(world)["cloud"]


def test_the_way_to_a_load_balancer_is_what_was_asked_for() -> None:
    world = World.of(listeners=[{**CLOUD, "loadBalancerClass": "inner"}])
    (listener,) = KafkaClusterSpec.model_validate(world.cluster["spec"]).listeners
    service = broker_listener_service(world.cluster, listener, 4)
    assert service["spec"]["loadBalancerClass"] == "inner"
    assert service["metadata"]["annotations"] == {"kind": "nlb"}
    assert service["spec"]["selector"][names.LABEL_NODE_ID] == "4"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_addresses_ports_and_limits_that_were_asked_for() -> None:
    template = "broker-{nodeId}.kafka.example.com"
    world = running(
        {
            **CLOUD,
            "advertisedHostTemplate": template,
            "annotations": {"external-dns.alpha.kubernetes.io/hostname": template},
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "externalTrafficPolicy": "Local",
            "maxConnections": 500,
            "maxConnectionCreationRate": 20,
        }
    )
    roll(world)
    service = world.get("Service", "demo-broker-1-cloud")
    assert (
        service["metadata"]["annotations"]["external-dns.alpha.kubernetes.io/hostname"]
        == "broker-1.kafka.example.com"
    )
    assert service["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    assert service["spec"]["externalTrafficPolicy"] == "Local"
    assert "broker-2.kafka.example.com:9097" in listeners_of(world)["cloud"].split(",")
    text = properties(world, 1)
    assert text["listener.name.cloud.max.connections"] == "500"
    assert text["listener.name.cloud.max.connection.creation.rate"] == "20"
    assert "CLOUD://broker-1.kafka.example.com:9097" in text["advertised.listeners"]


def test_node_ports_from_a_base() -> None:
    world = running({**NODES, "nodePortBase": 31000, "externalTrafficPolicy": "Cluster"})
    spec = world.get("Service", "demo-broker-2-nodes")["spec"]
    assert spec["ports"][0]["nodePort"] == 31002
    assert spec["externalTrafficPolicy"] == "Cluster"


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert BrokerListener("x", 1, "none", "fd00::1", 2).address == "[fd00::1]:2"


def test_an_address_written_another_way_is_certified_once() -> None:
    world = running(CLOUD)
    for service in world.all("Service"):
        if service["spec"]["type"] == "LoadBalancer":
            service["status"] = {"loadBalancer": {"ingress": [{"ip": "FD00:0::1"}]}}
            world.put(service)
    roll(world)
    assert "fd00::1" in world.get("Secret", names.tls_secret("demo", 0))["view"]["dns"]
    assert not world.reconcile().actions


def test_every_type_that_the_api_accepts_is_internal_or_has_an_address_and_a_service() -> None:
    accepted = set(get_args(Listener.model_fields["type"].annotation))
    assert accepted == {"internal", *EXTERNAL_TYPES}
    for kind in EXTERNAL_TYPES:
        listener = Listener(name="x", port=9096, type=kind)
        made = broker_listener_service(World.of().cluster, listener, 4)
        assert made["metadata"]["labels"][names.LABEL_LISTENER] == "x"


BOOT = {**CLOUD, "bootstrap": {"host": "kafka.example.com", "annotations": {"dns": "kafka.example.com"}}}


def test_a_bootstrap_load_balancer_has_all_brokers_behind_it_and_its_host_in_every_certificate() -> None:
    ranges = {"loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local"}
    world = running({**BOOT, **ranges})
    service = world.get("Service", "demo-bootstrap-cloud")
    assert service["metadata"]["annotations"]["dns"] == "kafka.example.com"
    assert "kind" not in service["metadata"]["annotations"]
    assert service["spec"]["selector"] == {names.LABEL_CLUSTER: "demo", names.LABEL_ROLE: "broker"}
    assert {key: service["spec"][key] for key in ("type", *ranges)} == {"type": "LoadBalancer", **ranges}
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(9097, "cloud")]
    assert world.get("Service", "demo-broker-0-cloud")["metadata"]["annotations"]["kind"] == "nlb"
    for broker in range(3):
        assert "kafka.example.com" in world.get("Secret", f"demo-broker-{broker}-tls")["view"]["dns"]
    assert listeners_of(world) == {"cloud": "kafka.example.com:9097"}
    assert not world.reconcile().actions


def test_without_bootstrap_its_load_balancer_goes_at_once_and_the_others_stay() -> None:
    world = running(BOOT)
    give_addresses(world, "lb")
    roll(world)
    world.cluster["spec"]["listeners"] = [CLOUD]
    world.reconcile()
    assert ("Service", "demo-bootstrap-cloud") not in world.objects
    assert ("Service", "demo-broker-0-cloud") in world.objects
    roll(world)
    assert listeners_of(world)["cloud"].split(",")[0] == "demo-broker-0-cloud.lb:9097"


def test_the_bootstrap_of_a_removed_listener_stays_while_brokers_have_the_listener() -> None:
    world = running(BOOT)
    give_addresses(world, "lb")
    roll(world)
    world.cluster["spec"]["listeners"] = []
    world.reconcile()
    assert ("Service", "demo-bootstrap-cloud") in world.objects
    roll(world)
    assert ("Service", "demo-bootstrap-cloud") not in world.objects
