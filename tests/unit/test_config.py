from dataclasses import replace

import pytest

from spindle.config.server_properties import (
    NodeConfig,
    broker_settings,
    controller_settings,
    heap_bytes,
    node_config,
    render,
)
from spindle.model.versions import release_version

NODE = NodeConfig(
    node_id=0, host="b0.example", controllers={9000: "c0.example", 9001: "c1.example"}, brokers=3
)
SUPER_USERS = "User:spindle-node;User:spindle-operator"


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_broker() -> None:
    text = render(broker_settings(NODE, rack="zone-a"))
    found = properties(text)
    assert text == "".join(sorted(text.splitlines(keepends=True)))
    assert found["process.roles"] == "broker"
    assert found["listeners"] == "REPLICATION://:9091,CLIENT://:9092"
    assert found["advertised.listeners"] == "REPLICATION://b0.example:9091,CLIENT://b0.example:9092"
    assert found["controller.quorum.bootstrap.servers"] == "c0.example:9090,c1.example:9090"
    assert found["broker.rack"] == "zone-a"
    assert found["allow.everyone.if.no.acl.found"] == "false"
    assert found["super.users"] == SUPER_USERS
    assert found["ssl.client.auth"] == "required"
    assert "controller.quorum.voters" not in found
    assert "log.dirs" not in found
    assert "unclean.leader.election.enable" not in found


def test_broker_without_a_rack() -> None:
    assert "broker.rack" not in properties(render(broker_settings(NODE, rack=None)))


def test_controller() -> None:
    found = properties(render(controller_settings(replace(NODE, node_id=9001, host="c1.example"))))
    assert found["process.roles"] == "controller"
    assert found["listeners"] == "CONTROLLER://:9090"
    assert found["advertised.listeners"] == "CONTROLLER://c1.example:9090"
    assert found["default.replication.factor"] == "3"


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (9, "3", "2")]
)
def test_defaults_follow_the_number_of_brokers(brokers: int, copies: str, in_sync: str) -> None:
    found = properties(render(broker_settings(replace(NODE, brokers=brokers), rack=None)))
    assert found["default.replication.factor"] == copies
    assert found["offsets.topic.replication.factor"] == copies
    assert found["min.insync.replicas"] == in_sync


def test_pool_wins_over_cluster_wins_over_defaults_and_what_is_ours_wins_over_all() -> None:
    node = replace(
        NODE,
        config={
            "min.insync.replicas": "1",
            "num.io.threads": "4",
            "node.id": "77",
            "super.users": "User:eve",
        },
        pool_config={"num.io.threads": "16"},
    )
    found = properties(render(broker_settings(node, rack=None)))
    assert (found["min.insync.replicas"], found["num.io.threads"]) == ("1", "16")
    assert (found["node.id"], found["super.users"]) == ("0", SUPER_USERS)


def test_throttled_copies_pause_shortly_unless_the_user_has_a_wish() -> None:
    key = "replica.fetch.backoff.ms"
    assert properties(render(broker_settings(NODE, rack=None)))[key] == "200"
    assert properties(render(broker_settings(replace(NODE, config={key: "700"}), rack=None)))[key] == "700"
    assert key not in properties(render(controller_settings(NODE)))


def test_small_heap_gets_a_small_cleaner_buffer_unless_the_user_has_a_wish() -> None:
    key = "log.cleaner.dedupe.buffer.size"
    assert key not in properties(render(broker_settings(NODE, rack=None)))
    assert key not in properties(render(broker_settings(replace(NODE, heap="1g"), rack=None)))
    assert properties(render(broker_settings(replace(NODE, heap="256m"), rack=None)))[key] == str(16 * 2**20)
    assert properties(render(broker_settings(replace(NODE, heap="16m"), rack=None)))[key] == str(2 * 2**20)
    request = replace(NODE, heap="256m", pool_config={key: "5000000"})
    assert properties(render(broker_settings(request, rack=None)))[key] == "5000000"


@pytest.mark.parametrize(
    ("heap", "size"),
    [("1g", 2**30), ("512M", 2**29), ("1024k", 2**20), ("77", 77), ("1Gi", None), ("", None), (None, None)],
)
def test_heap(heap: str | None, size: int | None) -> None:
    assert heap_bytes(heap) == size


def test_node_config_names_hosts_as_services_do() -> None:
    node = node_config("demo", "kafka", 2, controllers=(9001, 9000), brokers=3)
    assert node.host == "demo-broker-2.demo-brokers.kafka.svc"
    assert list(node.controllers) == [9000, 9001]
    assert node.controllers[9001] == "demo-controller-1.demo-controllers.kafka.svc"


def test_values_are_escaped_as_java_reads_them() -> None:
    assert (
        render({"a b": " x=y ", "path": "C:\\x", "two": "1\n2"}) == "a\\ b=\\ x=y \npath=C:\\\\x\ntwo=1\\n2\n"
    )
    assert render({"snow": "☃𝄞"}) == "snow=\\u2603\\ud834\\udd1e\n"
    assert render({"k:1": "a:b#!"}) == "k\\:1=a:b#!\n"


def test_release_version() -> None:
    assert release_version("4.3.1") == "4.3"
    for nonsense in ("4.3", "latest", "4.3.1-rc1", ""):
        with pytest.raises(ValueError, match="not a Kafka version"):
            release_version(nonsense)
