"""The topics of spec.metrics.topics reach brokers that run, and restart only pods that cannot read them."""

import os
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from spindle.metrics import table
from spindle.model.actions import Apply, Create, Evict
from tests.model.world import World, quickstart
from tests.unit.test_config_refused import passes, waiting
from tests.unit.test_healing_plan import cluster
from tests.unit.test_metrics_cluster import of, samples

SCRIPTS = resources.files("spindle_agent.preflight").joinpath("data")


def running(**fields: Any) -> World:
    world = World.of(**fields)
    world.settle()
    return world


def listed(world: World) -> list[str] | None:
    found = world.objects.get(("ConfigMap", "demo-topic-metrics"))
    return None if found is None else str(found["data"]["topics"]).splitlines()


def evicted(world: World, count: int = 60) -> set[str]:
    return {action.pod for action in passes(world, count) if isinstance(action, Evict)}


def test_without_topics_there_is_no_list() -> None:
    assert listed(running()) is None


def test_a_changed_list_restarts_nothing() -> None:
    world = running()
    for topics in (["orders", "a.b"], ["orders"], []):
        world.cluster["spec"]["metrics"] = {"topics": topics}
        assert not [a for a in passes(world, 8) if isinstance(a, Evict | Create)]
        assert listed(world) == sorted(topics)


def test_pods_of_an_earlier_version_restart_once_topics_are_named_and_not_before() -> None:
    world = running()
    for number in (0, 2):
        spec = world.get("Pod", f"demo-broker-{number}")["spec"]
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "topics"]
    assert evicted(world, 10) == set()
    world.cluster["spec"]["metrics"] = {"topics": ["orders"]}
    assert evicted(world) == {"demo-broker-0", "demo-broker-2"}
    assert evicted(world, 10) == set()


def test_a_list_that_somebody_changed_is_restored() -> None:
    world = running(metrics={"topics": ["orders"]})
    assert listed(world) == ["orders"]
    world.get("ConfigMap", "demo-topic-metrics")["data"]["topics"] = "*\n"
    assert [a for a in passes(world, 3) if isinstance(a, Apply)]
    assert listed(world) == ["orders"]


@pytest.mark.parametrize(
    ("metrics", "field", "part"),
    [
        ({"topics": ["orders", "or*"]}, "spec.metrics.topics", "'or*'"),
        ({"topics": [".."]}, "spec.metrics.topics", "'..'"),
        ({"topics": ["a\n"]}, "spec.metrics.topics", "not the name of a topic"),
        ({"topics": ["x" * 250]}, "spec.metrics.topics", "not the name of a topic"),
        ({"topics": [f"t{i}" for i in range(201)]}, "spec.metrics.topics", "201 names"),
        ({"consumerLag": {"groups": ["*a"]}}, "spec.metrics.consumerLag.groups", "'*a'"),
        ({"consumerLag": {"groups": [""]}}, "spec.metrics.consumerLag.groups", "''"),
        ({"consumerLag": {"groups": ["g"] * 201}}, "spec.metrics.consumerLag.groups", "201 names"),
    ],
)
def test_a_wrong_name_is_refused_with_its_field(metrics: dict[str, Any], field: str, part: str) -> None:
    """Also where the CRD is of an earlier version and did not refuse it."""
    world = running(metrics={"topics": ["orders"]})
    world.cluster["spec"]["metrics"] = metrics
    passes(world, 4)
    (wait,) = waiting(world)
    assert wait["message"].startswith(f"{field}: ")
    assert part in wait["message"]
    assert listed(world) == ["orders"]


def test_right_names_are_accepted() -> None:
    lag = {"enabled": True, "groups": ["billing", "connect-*", "*", "a b"]}
    world = running(metrics={"topics": ["A.b_c-9", "x" * 249], "consumerLag": lag})
    assert waiting(world) == []
    assert quickstart()["spec"].get("metrics") is None


# The scripts


class Scripts:
    """metrics.sh with a list of topics."""

    def __init__(self, folder: Path) -> None:
        self.config, self.topics = folder / "jmx.yaml", folder / "topics"

    def run(self, command: str, shell: str = "sh") -> None:
        script = f'set -u; H={SCRIPTS}; . "$H/metrics.sh"; {command}'
        env = {
            "PATH": os.environ["PATH"],
            "SPINDLE_JMX_CONFIG": str(self.config),
            "SPINDLE_TOPICS": str(self.topics),
        }
        done = subprocess.run([shell, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert done.stderr == done.stdout == ""

    def beans(self) -> list[str]:
        made = yaml.safe_load(self.config.read_text())
        assert made["rules"][-1]["labels"] == {"kind": "Dirty"}
        return [bean for bean in made["includeObjectNames"] if "topic=" in bean]

    def whole(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self.config.read_text()))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_exporter_gets_a_changed_list(tmp_path: Path, shell: str) -> None:
    scripts = Scripts(tmp_path)
    scripts.run("write_exporter_config Dirty", shell)
    without = scripts.whole()
    assert scripts.beans() == []
    scripts.topics.write_text("a.b\nc\n")
    scripts.run("refresh_exporter_config", shell)
    assert len(scripts.beans()) == 14
    assert "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=a.b" in scripts.beans()
    assert scripts.whole()["rules"] == without["rules"]
    first = scripts.config.stat().st_ino
    scripts.run("refresh_exporter_config", shell)
    assert scripts.config.stat().st_ino == first
    scripts.topics.write_text("c\n")
    scripts.run("refresh_exporter_config", shell)
    assert len(scripts.beans()) == 7
    for gone in (lambda: scripts.topics.write_text(""), scripts.topics.unlink):
        gone()
        scripts.run("refresh_exporter_config", shell)
        assert scripts.whole() == without


def test_a_line_that_is_no_topic_is_no_pattern(tmp_path: Path) -> None:
    scripts = Scripts(tmp_path)
    scripts.topics.write_text('*\na"b\nfine\n"\n&\na,name=*\n' + "x" * 250 + "\n\n$(touch x)\n")
    scripts.run("write_exporter_config Dirty")
    assert {bean.rpartition("topic=")[2] for bean in scripts.beans()} == {"fine"}


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    scripts = Scripts(tmp_path)
    scripts.config.write_text("rules: []\n")
    scripts.topics.write_text("a\n")
    scripts.run("refresh_exporter_config")
    assert scripts.config.read_text() == "rules: []\n"


# The size of a topic


def test_the_size_of_a_topic_is_known_only_if_every_broker_with_a_replica_answers() -> None:
    world = cluster()
    view = world.snapshot().kafka
    assert view.partitions is not None
    assert view.brokers is not None
    topic = view.partitions[0].topic
    assert of(samples(world), table.TOPIC_BYTES) == {}
    world.cluster["spec"]["metrics"] = {"topics": [topic, "not-there"]}
    expected = sum(
        size
        for broker in view.brokers.values()
        for each in broker.log_dirs or ()
        for key, size in each.replicas.items()
        if key[0] == topic
    )
    assert of(samples(world), table.TOPIC_BYTES) == {(topic,): expected}
    silent = {**view.brokers, 0: replace(view.brokers[0], log_dirs=None)}
    assert of(samples(world, kafka=replace(view, brokers=silent)), table.TOPIC_BYTES) == {}
