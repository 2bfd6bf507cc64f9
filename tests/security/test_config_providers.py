"""A config provider reads any file of a broker's pod into a setting, and Kafka writes settings to its log: real Kafka opens none."""

import os
import subprocess
from pathlib import Path

import pytest

from e2e.cluster.build import ensure_jmx_exporter, ensure_kafka_libs
from spindle.cluster.allowed import providers_in_use

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
    for name in ("start.sh", "log4j2.properties", "jmx.yaml"):
        (folder / name).write_bytes((SCRIPTS / name).read_bytes())
    (folder / "jmx.jar").symlink_to(ensure_jmx_exporter())
    env = {
        "PATH": os.environ["PATH"],
        "SPINDLE_KAFKA_LIBS": str(ensure_kafka_libs()),
        "SPINDLE_TERMINATION_LOG": str(folder / "message"),
        "SPINDLE_JMX_CONFIG": str(folder / "jmx-made.yaml"),
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
    assert "those are closed" in text


def test_what_was_in_use_before_they_were_closed_is_read(tmp_path: Path) -> None:
    used = providers_in_use({"config.providers": "file", "config.providers.file.class": PROVIDER})
    assert SECRET in said(tmp_path, SPINDLE_CONFIG_PROVIDERS=used)
