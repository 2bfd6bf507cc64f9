"""Settings are checked against what the release itself knows: its tables, and the rules that Kafka has outside of them."""

import time
from pathlib import Path
from typing import Any

import pytest

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.owned import OWNED, owned
from spindle.config.dynamic_config import AT_START, ON_BROKERS, ON_CLUSTER
from spindle.config.server_properties import broker_settings, node_config
from spindle.config.setting_values import wrong_value
from spindle.config.settings import known, known_of_topics
from spindle.config.settings_check import problems
from spindle.config.spec_settings import refused_settings
from spindle.model.free_settings import LIMITS, SUITES, wanted_instead
from spindle.model.versions import SUPPORTED
from spindle_cli.main import app
from tests.model.world import quickstart

LATEST = "4.3.1"


def said(settings: dict[str, str], version: str = LATEST) -> str:
    """All that is said about some settings, in one text."""
    return "\n".join(f"{each.message}; {each.way_out}" for each in problems(settings, version))


@pytest.mark.parametrize("version", SUPPORTED)
def test_each_release_has_its_table(version: str) -> None:
    table = known(f"{version}.0")
    assert len(table) > 300
    assert table["num.io.threads"].type == "int"
    assert table["num.io.threads"].update == "cluster-wide"
    assert table["compression.type"].allowed[-1] == "producer"
    assert not known("3.9.0")


@pytest.mark.parametrize("version", SUPPORTED)
def test_each_release_has_its_table_of_topics(version: str) -> None:
    table = known_of_topics(f"{version}.0")
    assert 30 < len(table) < 60
    assert (table["retention.ms"].type, table["retention.ms"].least) == ("long", -1)
    assert table["cleanup.policy"].allowed == ("compact", "delete")
    assert "num.io.threads" not in table
    assert not known_of_topics("3.9.0")


def test_what_brokers_are_told_while_they_run_is_what_the_table_says() -> None:
    running = {
        key
        for key, setting in known(f"{SUPPORTED[-1]}.0").items()
        if setting.update != "read-only" and not setting.internal and not owned(key)
    }
    told = ON_BROKERS | ON_CLUSTER | AT_START
    assert told <= running
    # Classes and TLS: a restart brings them.
    assert running - told <= {
        "config.providers",
        "metric.reporters",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
    }


@pytest.mark.parametrize("version", SUPPORTED)
def test_what_spindle_sets_itself_passes(version: str) -> None:
    for heap in (None, "256m", "8g"):
        node = node_config("demo", "test", 0, controllers=(1000,), brokers=3, heap=heap)
        settings = broker_settings(node, rack="a")
        defaults = {key: value for key, value in settings.items() if not owned(key)}
        assert not problems(defaults, f"{version}.1", settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num.io.treads": "8"}, "num.io.treads is not a setting of Kafka 4.3.1; the most similar one is num.io.threads"),
        ({"retention.ms": "8"}, "log.retention.ms"),
        ({"my.own.thing": "8"}, "my.own.thing is not a setting of Kafka 4.3.1; remove my.own.thing"),
        ({"num.network.threads": "many"}, 'num.network.threads cannot be "many": Kafka accepts a whole number of 1 or more'),
        ({"num.network.threads": "0"}, "from 1 to 2147483647"),
        ({"num.network.threads": "2147483648"}, "from 1 to 2147483647"),
        ({"num.network.threads": "1_0"}, "a whole number of 1 or more"),
        ({"log.retention.bytes": "10GB"}, "a whole number"),
        ({"offsets.topic.replication.factor": "40000"}, "32767"),
        ({"log.cleaner.min.cleanable.ratio": "1.1"}, "a number from 0 to 1"),
        ({"auto.create.topics.enable": "yes"}, "true or false"),
        ({"compression.type": "brotli"}, "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"compression.gzip.level": "10"}, "a whole number from 1 to 9, or -1"),
        ({"log.cleanup.policy": "compact,remove"}, "a list of compact, delete"),
        ({"metric.reporters": "a.B,,c.D"}, "without empty elements"),
        ({"group.consumer.assignors": ""}, "a non-empty list"),
        ({"client.quota.callback.class": "not a class"}, "the name of a Java class"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "10.0.0.1:100"),
        ({"log.retention.hours": "0"}, "-1 for no limit, or 1 or more"),
        ({"queued.max.request.bytes": "1000"}, "is below socket.request.max.bytes (104857600)"),
        ({"group.consumer.session.timeout.ms": "1000"}, "is above group.consumer.session.timeout.ms (1000)"),
        ({"group.share.heartbeat.interval.ms": "45000", "group.share.max.heartbeat.interval.ms": "50000"}, "is not below"),
        ({"replica.fetch.wait.max.ms": "60000"}, "is above replica.socket.timeout.ms (30000)"),
        ({"log.cleaner.threads": "128"}, "log.cleaner.dedupe.buffer.size (134217728) must be more than 1048576"),
        ({"max.connections.per.ip": "0"}, "no client could connect"),
        (
            {"remote.log.storage.system.enable": "true", "log.retention.hours": "1", "log.local.retention.ms": "3600001"},
            "log.local.retention.ms (3600001) is above log.retention.hours (1)",
        ),
    ],
)  # fmt: skip
def test_what_kafka_would_not_take_is_named_with_what_it_takes(settings: dict[str, str], words: str) -> None:
    assert words in said(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"num.network.threads": " +3 "},
        {"auto.create.topics.enable": "FALSE"},
        {"log.cleaner.min.cleanable.ratio": ".5"},
        {"compression.gzip.level": "-1"},
        {"log.cleanup.policy": "compact, delete"},
        {"group.consumer.migration.policy": "Upgrade"},
        {"metric.reporters": ""},
        {"log.retention.hours": "0", "log.retention.minutes": "5"},  # Kafka looks at the finer one alone
        {"queued.max.request.bytes": "-1"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:5, 10.0.0.2:7"},
        {"unstable.api.versions.enable": "true"},  # Kafka's own, though it documents it nowhere
    ],
)
def test_what_kafka_takes_passes(settings: dict[str, str]) -> None:
    assert not said(settings)


def test_settings_of_classes_are_let_through_by_rule() -> None:
    prefixed = {
        "rsm.config.bucket": "b",
        "metrics.jmx.include": ".*",
        "config.providers.env.param.allowlist": "A.*",
    }
    assert not said(prefixed)
    assert said({"their.bucket": "b"})
    assert not said({"remote.log.storage.manager.impl.prefix": "their.", "their.bucket": "b"})
    assert said({"quota.burst": "5"})
    own = {"client.quota.callback.class": "org.example.Quotas", "quota.burst": "5"}
    assert not said(own)
    assert "num.io.threads" in said({**own, "num.io.thread": "8"})  # a slip, whatever class is loaded


def test_a_value_that_a_provider_looks_up_is_not_judged() -> None:
    looked_up = {"num.io.threads": "${env:IO_THREADS}"}
    assert said(looked_up)
    assert not said({"config.providers": "env", **looked_up})
    assert not said({"config.providers": "env", "group.share.max.size": "${env:N}"})


def test_a_value_of_another_tool_that_is_no_number_is_refused_and_ends_nothing() -> None:
    assert wanted_instead("controller.quorum.fetch.timeout.ms", "${env:X}") == "a number from 500 to 60000"


def test_a_setting_of_another_release_is_called_that() -> None:
    settings = {"group.consumer.max.assignment.interval.ms": "9000"}
    assert not said(settings)
    assert "is not a setting of Kafka 4.2.1; it is one of 4.3" in said(settings, "4.2.1")
    assert not said(settings, "9.9.9")  # not supported, which is said elsewhere


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "Spindle accepts a list with TLS_AES_256_GCM_SHA384"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA"}, "and otherwise only TLS_AES_128"),
        ({"ssl.enabled.protocols": "TLSv1.2"}, "a list with TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.3,TLSv1.1"}, "a list with TLSv1.3"),
        ({"controller.quorum.fetch.timeout.ms": "5"}, "a number from 500 to 60000"),
        ({"controller.quorum.fetch.timeout.ms": "soon"}, "Kafka accepts a whole number"),
        ({"controller.quorum.retry.backoff.ms": "0"}, "a number from 10 to 10000"),
    ],
)  # fmt: skip
def test_limits_of_keys_among_those_that_spindle_owns(settings: dict[str, str], words: str) -> None:
    assert words in said(settings)


@pytest.mark.parametrize("version", SUPPORTED)
def test_keys_that_are_free_have_limits_and_pass_within_them(version: str) -> None:
    free = {key for group in OWNED for key in group.free}
    assert free == set(LIMITS)
    table = known(f"{version}.0")
    settings = {key: table[key].default or "" for key in free if key in table}
    settings |= {
        "ssl.cipher.suites": ", ".join(SUITES),
        "ssl.enabled.protocols": "TLSv1.3",
        "connections.max.reauth.ms": "3600000",
    }
    assert not said(settings, f"{version}.0")
    assert not any(owned(key) for key in settings)


def test_a_secret_is_not_repeated() -> None:
    keys = {key for key, setting in known(LATEST).items() if setting.sensitive}
    assert "ssl.key.password" in keys
    assert all(any(group.has(key) for group in OWNED) or not said({key: "word"}) for key in keys)


def spec(config: dict[str, str], pool: dict[str, str], **fields: Any) -> KafkaClusterSpec:
    made = quickstart(**fields)["spec"]
    made["config"] = config
    made["brokerPools"] = [made["brokerPools"][0] | {"config": pool}]
    return KafkaClusterSpec.model_validate(made)


def test_every_place_of_the_spec_is_looked_at_and_named() -> None:
    def fields(asked: KafkaClusterSpec) -> set[tuple[str, str]]:
        return {(each.field, each.key) for each in refused_settings(asked, asked.version)}

    assert fields(spec({"num.io.treads": "8"}, {})) == {("spec.config", "num.io.treads")}
    assert fields(spec({}, {"num.io.treads": "8"})) == {("spec.brokerPools[main].config", "num.io.treads")}
    # Each is right by itself, and would be for the controllers.
    both = spec({"socket.request.max.bytes": "2000"}, {"queued.max.request.bytes": "1000"})
    assert fields(both) == {("spec.brokerPools[main].config", "queued.max.request.bytes")}
    assert not fields(spec({"num.io.threads": "8"}, {"log.retention.ms": "1000"}))


def test_preview_says_what_kafka_refuses(tmp_path: Path) -> None:
    import yaml
    from typer.testing import CliRunner

    made = quickstart(config={"num.io.treads": "8", "num.network.threads": "many"})
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(made))
    result = CliRunner().invoke(app, ["preview", str(file)])
    assert result.exit_code == 1
    assert "spec.config: num.io.treads is not a setting of Kafka 4.3.1" in result.output
    assert "To resolve: use num.io.threads" in result.output
    assert "num.network.threads" in result.output


def test_a_long_text_that_is_no_number_costs_no_more_than_one_that_is() -> None:
    """One KafkaCluster has many settings of many letters each, and all others wait for it."""
    key, digits = "log.cleaner.io.max.bytes.per.second", "1" * 1500

    def seconds(value: str) -> float:
        began = time.thread_time()
        for _ in range(5):
            list(wrong_value(key, value, known("4.3.1")[key]))
        return time.thread_time() - began

    assert min(seconds(f"{digits}x") for _ in range(5)) < 200 * seconds(digits)


def test_of_keys_without_end_few_are_compared_with_what_kafka_knows() -> None:
    found = problems({f"log.retention.hourx{number}": "1" for number in range(100)}, LATEST)
    assert len(found) == 100
    assert sum("the most similar" in each.message for each in found) == 16
