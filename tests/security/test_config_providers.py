"""A config provider reads any file of a broker's pod into a setting, and Kafka writes settings to its log: real Kafka opens none."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster.build import ensure_jmx_exporter, ensure_kafka_libs
from spindle.api import names
from spindle.model.allowed import providers_in_use
from spindle_operator import kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

SCRIPTS = Path(__file__).resolve().parents[2] / "agent/spindle_agent/preflight/data"
PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
SECRET = "the-nodes-own-key"  # noqa: S105 - of the test


def said(folder: Path, **environment: str) -> str:
    """What a broker says that is started with a configuration that looks a secret up; it does not come far either way."""
    hidden = folder / "keystore.pem"
    hidden.write_text(f"key={SECRET}\n")
    settings = {
        "config.providers": "file",
        "config.providers.file.class": PROVIDER,
        "node.id": "1",
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "listeners": "REPLICATION://127.0.0.1:0",
        "inter.broker.listener.name": "REPLICATION",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT",
        "num.network.threads": f"${{file:{hidden}:key}}",
    }
    (folder / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    (folder / "node.env").write_text("ROLE=broker\nDISKS_ROOT=/\nSHARED_FILESYSTEM=yes\nBIND=127.0.0.1\n")
    (folder / "disks.list").write_text("")
    for name in ("start.sh", "metrics.sh", "logging.sh", "log4j2.properties", "jmx.yaml"):
        (folder / name).write_bytes((SCRIPTS / name).read_bytes())
    (folder / "jmx.jar").symlink_to(ensure_jmx_exporter())
    env = {
        "PATH": os.environ["PATH"],
        "SPINDLE_KAFKA_LIBS": str(ensure_kafka_libs()),
        "SPINDLE_TERMINATION_LOG": str(folder / "message"),
        "SPINDLE_JMX_CONFIG": str(folder / "jmx-made.yaml"),
        "SPINDLE_CLOSED": str(folder / "closed"),
        "KAFKA_HEAP_OPTS": "-Xmx128m",
        **environment,
    }
    done = subprocess.run(
        ["/bin/sh", folder / "start.sh"], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_no_file_is_read_into_a_setting(tmp_path: Path) -> None:
    text = said(tmp_path)
    assert SECRET not in text
    assert "names config providers, which Spindle disables" in text


def test_what_was_in_use_before_they_were_closed_is_read(tmp_path: Path) -> None:
    used = providers_in_use({"config.providers": "file", "config.providers.file.class": PROVIDER})
    assert SECRET in said(tmp_path, SPINDLE_CONFIG_PROVIDERS=used)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    return made


@contextlib.contextmanager
def connection(cluster: Cluster, folder: Path, port: int) -> Iterator[KafkaClient]:
    """An administrator's tools with the certificate of a folder."""
    files = [(folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")]
    hosts = {0: cluster.brokers[0].address}
    link = KafkaClient("test/demo", hosts, port, Access(hosts, *files).context(), 10)
    try:
        yield link
    finally:
        link.close()


def lookup(provider: str, value: str) -> dict[str, str | None]:
    """Settings that have a broker look something up, which Kafka would tell in its refusal: it is no number."""
    return {
        "config.providers": "p",
        "config.providers.p.class": f"org.apache.kafka.common.config.provider.{provider}",
        "log.cleaner.io.max.bytes.per.second": value,
    }


@pytest.mark.parametrize("who", ["nobody", "operator"])
@pytest.mark.parametrize("broker", ["0", ""], ids=["a-broker", "all-brokers"])
def test_nothing_is_read_into_a_setting_of_a_broker_that_runs(
    cluster: Cluster, tmp_path: Path, who: str, broker: str
) -> None:
    """Neither for somebody without any right in Kafka, whom it would tell before it says that he may not, nor for those who may."""
    nobody = cluster.ca.client(tmp_path / "nobody", "nobody")
    folder, port = (
        (nobody, names.PORT_CLIENT) if who == "nobody" else (cluster.operator, names.PORT_REPLICATION)
    )
    (tmp_path / "key").write_text(f"{SECRET}\n")
    (tmp_path / "properties").write_text(f"key={SECRET}\n")
    with connection(cluster, folder, port) as link:
        for provider, value in (
            ("DirectoryConfigProvider", f"${{p:{tmp_path}:key}}"),
            ("FileConfigProvider", f"${{p:{tmp_path}/properties:key}}"),
            ("EnvVarConfigProvider", "${p:KAFKA_HEAP_OPTS}"),
        ):
            with pytest.raises(kafka_commands.RejectedError) as refused:
                kafka_commands.set_configs(link, "broker", broker, lookup(provider, value))
            assert SECRET not in str(refused.value)
            assert "-Xm" not in str(refused.value)
    # It runs on, and takes what it is told as ever.
    with connection(cluster, cluster.operator, names.PORT_REPLICATION) as link:
        kafka_commands.set_configs(link, "broker", "0", {"log.cleaner.threads": "2"})
    assert SECRET not in cluster.brokers[0].log.read_text()
