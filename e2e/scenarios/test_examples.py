"""Files of examples/, applied as they are and used as their comments say."""

import base64
import json
from functools import partial
from typing import Any, Final

import pytest

from e2e.scenarios.lab import CLUSTER, ROOT, SAMPLE, Lab
from e2e.scenarios.test_listeners import is_ready

pytestmark = pytest.mark.e2e

_EXAMPLES: Final = ROOT / "examples"
_BIN: Final = "/opt/kafka/bin"
_ROLL_S: Final = 600.0  # a rolling restart of three brokers, on a small machine


def apply(lab: Lab, *files: str) -> None:
    """Apply files as a user does."""
    paths = [arg for file in files for arg in ("-f", str(_EXAMPLES / file))]
    lab.kubectl("apply", *paths)


def delete(lab: Lab, *files: str) -> None:
    """Delete what files contain, in the reverse order."""
    for file in reversed(files):
        lab.kubectl("delete", "-f", str(_EXAMPLES / file), timeout=120)


def change(lab: Lab, file: str) -> None:
    """Apply a file with the KafkaCluster, and wait until it is in effect."""
    apply(lab, file)
    lab.until(f"{file} is in effect", partial(_is_in_effect, lab, CLUSTER), _ROLL_S)


def _is_in_effect(lab: Lab, name: str) -> bool:
    cluster = lab.the("kafkacluster", name)
    status = cluster.get("status") or {}
    found = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return (
        status.get("observedGeneration") == cluster["metadata"]["generation"]
        and found.get("Ready") == "True"
        and found.get("Reconciling") != "True"
    )


def in_client(lab: Lab, script: str, *arguments: str) -> str:
    """Run a script in the pod of client-pod.yaml."""
    return lab.kubectl("exec", "kafka-client", "--", "bash", "-c", script, "client", *arguments, timeout=120)


def _secret(lab: Lab, name: str) -> dict[str, Any]:
    found: dict[str, Any] = lab.the("secret", name)["data"]
    return found


def test_users_and_a_quota(running: Lab) -> None:
    """users.yaml and quotas.yaml."""
    lab = running
    apply(lab, "users.yaml", "quotas.yaml")
    for user in ("orders", "reports", "bulk"):
        lab.until(f"{user} is ready", partial(is_ready, lab, user))
    assert "sasl.jaas.config" in _secret(lab, f"{CLUSTER}.user.reports")
    assert "tls.crt" in _secret(lab, f"{CLUSTER}.user.orders")
    delete(lab, "users.yaml", "quotas.yaml")


def test_topics_and_a_client_with_a_certificate(running: Lab) -> None:
    """topics.yaml, topic-resource.yaml and client-pod.yaml."""
    lab = running
    apply(lab, "topics.yaml")
    lab.kubectl("wait", "--for=condition=Complete", "job/topic-orders", "--timeout=180s", timeout=200)
    apply(lab, "topic-resource.yaml")
    lab.until("the topic that exists is named", lambda: _topic(lab, "orders")["reason"] == "NameTaken")
    lab.until("the other one is created", lambda: _topic(lab, "orders-changes")["status"] == "True")
    lab.patch("kafkatopic", "orders", {"spec": {"adopt": True}})
    lab.until("it is adopted", lambda: _topic(lab, "orders")["status"] == "True")
    apply(lab, "client-pod.yaml")
    lab.kubectl("wait", "--for=condition=Ready", "pod/kafka-client", "--timeout=180s", timeout=200)
    common = f"--bootstrap-server {CLUSTER}-bootstrap:9092 --topic orders --command-config /etc/client/client.properties"
    in_client(lab, f"seq 1 50 | {_BIN}/kafka-console-producer.sh {common}")
    read = f"{_BIN}/kafka-console-consumer.sh {common} --group client --from-beginning --max-messages 50 --timeout-ms 60000"
    assert sorted(map(int, in_client(lab, read).split())) == list(range(1, 51))
    delete(lab, "topic-resource.yaml", "client-pod.yaml", "topics.yaml")
    lab.spindle("verify", "-n", lab.namespace, "-c", CLUSTER)


def _topic(lab: Lab, name: str) -> dict[str, str]:
    """Its condition Ready."""
    conditions = (lab.the("kafkatopic", name).get("status") or {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Ready"), {})


def test_settings_of_the_cluster_one_after_the_other(running: Lab) -> None:
    """full-disks.yaml, network-policies.yaml, consumer-lag.yaml, follower-fetching.yaml with consumer.yaml, and the listeners."""
    lab = running
    change(lab, "full-disks.yaml")
    disks = "/var/lib/kafka/disks"
    ballast = f"stat -c %s {disks}/*/.spindle-ballast"
    lab.until("each disk has its ballast", lambda: _in_broker(lab, ballast).split() == [str(2**30)] * 2)
    change(lab, "network-policies.yaml")
    assert lab.list("networkpolicies")
    change(lab, "consumer-lag.yaml")
    change(lab, "follower-fetching.yaml")
    assert lab.spindle("racks", CLUSTER, "-n", lab.namespace).count("zone-") >= 3
    lab.spindle("verify", "--topic", "orders", "-n", lab.namespace, "-c", CLUSTER)
    apply(lab, "consumer.yaml")
    lab.kubectl("rollout", "status", "deployment/consumer", "--timeout=120s", timeout=140)
    delete(lab, "consumer.yaml")
    change(lab, "listener-plaintext.yaml")
    change(lab, "listener-nodeport.yaml")
    listeners = {each["name"]: each for each in lab.the("kafkacluster", CLUSTER)["status"]["listeners"]}
    assert listeners["nodes"]["bootstrap"], listeners
    change(lab, "listener-internal.yaml")
    apply(lab, "users.yaml", "client-pod.yaml")
    lab.until("the user is ready", partial(is_ready, lab, "reports"))
    lab.kubectl("wait", "--for=condition=Ready", "pod/kafka-client", "--timeout=180s", timeout=200)
    with_password = (
        "printf '%s\\n' security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-512 ssl.truststore.type=PEM"
        ' ssl.truststore.location=/etc/credentials/ca.crt "sasl.jaas.config=$1" >/tmp/reports;'
        f" {_BIN}/kafka-console-consumer.sh --bootstrap-server {CLUSTER}-bootstrap-inside:9095 --topic orders"
        " --command-config /tmp/reports --group reports-1 --from-beginning --max-messages 10 --timeout-ms 60000 | wc -c"
    )
    assert (
        int(in_client(lab, f"set -o pipefail; {with_password}", _login(lab, "reports"))) >= 1000
    )  # ten of 100 bytes
    delete(lab, "users.yaml", "client-pod.yaml")
    change(lab, SAMPLE.name)


def _in_broker(lab: Lab, script: str) -> str:
    return lab.kubectl("exec", f"{CLUSTER}-broker-0", "-c", "kafka", "--", "bash", "-c", script)


def _login(lab: Lab, user: str) -> str:
    """Value of ``sasl.jaas.config`` for a user with a password."""
    return base64.b64decode(_secret(lab, f"{CLUSTER}.user.{user}")["sasl.jaas.config"]).decode()


def test_the_smallest_cluster_on_the_default_storage_class(lab: Lab) -> None:
    """single-node.yaml."""
    apply(lab, "single-node.yaml")
    lab.until("it is ready", partial(_is_in_effect, lab, "small"), 300)
    found = json.loads(lab.spindle("status", "small", "-n", lab.namespace, "-o", "json"))
    assert found
    lab.spindle("verify", "-n", lab.namespace, "-c", "small", timeout=300)
    lab.kubectl("delete", "-f", str(_EXAMPLES / "single-node.yaml"), timeout=240)
