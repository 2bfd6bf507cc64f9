"""What is said about settings before anything is done, against Kafka: its own classes for all of them, a running broker for a few."""

import random
from collections.abc import Callable, Iterator, Mapping

import pytest

from e2e.cluster import versions
from spindle.api import names
from spindle.api.owned import owned
from spindle.config.server_properties import broker_settings, node_config
from spindle.config.settings import SettingSpec, known
from spindle.config.settings_check import problems
from spindle_operator import kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tools import kafka_settings

RELEASES = sorted(kafka_settings.RELEASES.values())
CASES = 1200
A_CLASS = "org.apache.kafka.common.metrics.JmxReporter"
# Beside those that its type gives: what Kafka checks together depends on which of a family are written.
LARGE = {"remote.log.storage.system.enable": "true"}
_BITS = {"short": 15, "int": 31, "long": 63}


def test_the_tables_are_what_the_jars_say() -> None:
    assert not kafka_settings.stale()


def of_type(setting: SettingSpec) -> list[str]:
    """Values at and around what a setting takes, and some that it cannot."""
    if setting.type in _BITS:
        bounds = [-(2 ** _BITS[setting.type]), 2 ** _BITS[setting.type] - 1]
        bounds += [int(each) for each in (setting.least, setting.most) if each is not None]
        default = setting.default or ""
        bounds += [int(default)] * 3 if default.lstrip("-").isdecimal() else []
        numbers = [str(bound + step) for bound in bounds for step in (-1, 0, 1)]
        return [*numbers, "-2", "-1", "0", "1", "1000", "60000", "many", "", "1.5", " 7 ", "+3", "1_0"]
    if setting.type == "double":
        return ["0", "1", "-1", "0.5", "1.0d", "1e3", ".5", "5.", "x", "", "0x10"]
    if setting.type == "boolean":
        return ["true", "false", "TRUE", " True ", "yes", "1", ""]
    if setting.type == "list":
        return ["", *setting.allowed, ",".join(setting.allowed), "a,,b"]
    if setting.type == "class":
        return ["", A_CLASS, "not a class"]
    return ["", *setting.allowed, *(each.upper() for each in setting.allowed), "zz"]


def drawn(table: Mapping[str, SettingSpec], rng: random.Random) -> dict[str, str]:
    """One setting, or some of one family."""
    key = rng.choice(sorted(table))
    family = [other for other in sorted(table) if other.split(".")[:2] == key.split(".")[:2]]
    keys = [key] if rng.random() < 0.4 else rng.sample(family, min(len(family), rng.randint(2, 4)))
    settings = {each: rng.choice(of_type(table[each])) for each in keys}
    if rng.random() < 0.15:
        kept = [each for each in sorted(table) if "retention.ms" in each or each.endswith(".retention.bytes")]
        settings |= LARGE | {each: rng.choice(of_type(table[each])) for each in rng.sample(kept, 2)}
    return settings


@pytest.mark.parametrize("version", RELEASES)
def test_what_is_said_is_what_kafkas_own_classes_say(version: str) -> None:
    """Both ways: nothing that Kafka takes is refused, except beyond limits of Spindle, and nothing passes that it does not start with."""
    table = {key: setting for key, setting in known(version).items() if not owned(key)}
    node = node_config("demo", "test", 0, controllers=(1000, 1001, 1002), brokers=3)
    around = {**broker_settings(node, rack="a"), "log.dirs": "/disk"}
    rng = random.Random(version)
    cases = [{key: value} for key, setting in table.items() for value in dict.fromkeys(of_type(setting))]
    cases += [drawn(table, rng) for _ in range(CASES)]
    verdicts = kafka_settings.judge(version, [{**around, **case} for case in cases])
    differing = {
        str(case): (found, verdict)
        for case, verdict in zip(cases, verdicts, strict=True)
        if bool(found := [p for p in problems(case, version, around) if "Spindle accepts" not in p.message])
        != bool(verdict)
        # Which classes there are is known only where Kafka runs.
        and not (verdict and "cannot be found" in verdict)
    }
    assert not differing
    refused = sum(verdict is not None for verdict in verdicts)
    assert 500 < refused < len(cases) - 500  # both kinds are among them


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    return made


@pytest.fixture
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    access = Access({0: cluster.nodes[0].address}, *pems)
    made = KafkaClient("test/demo", access.hosts, names.PORT_REPLICATION, access.context(), 10)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("log.retention.bytes", "1000000", "10GB"),
        ("log.retention.ms", "60000", "0"),
        ("num.io.threads", "3", "0"),
        ("log.cleaner.min.cleanable.ratio", "0.7", "1.1"),
        ("log.preallocate", "FALSE", "no"),
        ("log.cleanup.policy", "compact, delete", "remove"),
        ("compression.type", "zstd", "brotli"),
        ("compression.gzip.level", "9", "10"),
        ("max.connections.per.ip.overrides", "127.0.0.9:5", "127.0.0.9"),
        ("log.cleaner.dedupe.buffer.size", "4194304", "1000"),
    ],
)
def test_a_running_broker_agrees(link: KafkaClient, key: str, taken: str, refused: str) -> None:
    assert not problems({key: taken}, versions.KAFKA)
    kafka_commands.set_configs(link, "broker", "0", {key: taken})
    kafka_commands.set_configs(link, "broker", "0", {key: None})
    assert problems({key: refused}, versions.KAFKA)
    with pytest.raises(kafka_commands.RejectedError):
        kafka_commands.set_configs(link, "broker", "0", {key: refused})
