"""Files of examples/, applied as they are and used as their comments say."""

import json
from functools import partial
from typing import Final

import pytest

from e2e.scenarios.lab import CLUSTER, ROOT, Lab
from e2e.scenarios.test_listeners import is_ready

pytestmark = pytest.mark.e2e

_EXAMPLES: Final = ROOT / "examples"
_BIN: Final = "/opt/kafka/bin"
_CLIENT: Final = (
    "--bootstrap-server demo-bootstrap:9092 --topic orders --command-config /etc/client/client.properties"
)
_RECORDS: Final = 20


def use(lab: Lab, *files: str) -> None:
    """Apply files as a user does."""
    paths = [arg for file in files for arg in ("-f", str(_EXAMPLES / file))]
    lab.kubectl("apply", *paths)


def in_client(lab: Lab, command: str, timeout: float = 120) -> str:
    return lab.kubectl("exec", "kafka-client", "--", "bash", "-c", command, timeout=timeout)


def test_a_topic_users_a_quota_and_a_client(running: Lab) -> None:
    """topics.yaml, users.yaml, quotas.yaml and client-pod.yaml on the cluster of quickstart.yaml."""
    lab = running
    use(lab, "topics.yaml", "users.yaml", "quotas.yaml", "client-pod.yaml")
    lab.kubectl("wait", "job/topic-orders", "--for=condition=Complete", "--timeout=180s", timeout=200)
    lab.kubectl("wait", "pod/kafka-client", "--for=condition=Ready", "--timeout=180s", timeout=200)
    for user in ("orders", "bulk", "client"):
        lab.until(f"{user} is ready", partial(is_ready, lab, user))
    # It authenticates by password, and no listener asks for one yet.
    assert "sasl.jaas.config" in lab.the("secret", f"{CLUSTER}.user.reports")["data"]

    in_client(lab, f"seq {_RECORDS} | {_BIN}/kafka-console-producer.sh {_CLIENT}")
    read = in_client(
        lab,
        f"{_BIN}/kafka-console-consumer.sh {_CLIENT} --group client --from-beginning --max-messages {_RECORDS} --timeout-ms 60000",
    )
    assert sorted(map(int, read.split())) == list(range(1, _RECORDS + 1))
    told = lab.spindle("topic", "describe", "orders", "-n", lab.namespace, "-c", CLUSTER)
    assert "12" in told
    lab.kubectl("delete", "-f", str(_EXAMPLES / "client-pod.yaml"), timeout=120)


def test_the_smallest_cluster_on_the_default_storage_class(lab: Lab) -> None:
    """single-node.yaml."""
    use(lab, "single-node.yaml")

    def ready() -> bool:
        status = (lab.get("kafkacluster", "small") or {}).get("status") or {}
        return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())

    lab.until("it is ready", ready, 300)
    found = json.loads(lab.spindle("status", "small", "-n", lab.namespace, "-o", "json"))
    assert found
    lab.spindle("verify", "-n", lab.namespace, "-c", "small", timeout=300)
