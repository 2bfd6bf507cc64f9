"""A KafkaCluster becomes a running Kafka: disks are log dirs, zones are racks, records can be written and read."""

import json

import pytest

from e2e.scenarios.lab import CLUSTER, Lab, run_client, sample

pytestmark = pytest.mark.e2e

# Queried from Kafka itself, over mTLS, with the admin's certificate.
_ASK_KAFKA = """
import json, os
from kafka.admin import KafkaAdminClient
D = "/etc/spindle/credentials/"
S = dict(bootstrap_servers=os.environ["BOOTSTRAP"], security_protocol="SSL", ssl_cafile=D + "ca.crt",
         ssl_certfile=D + "tls.crt", ssl_keyfile=D + "tls.key")
a = KafkaAdminClient(**S)
brokers = {b["broker_id"]: b["rack"] for b in a.describe_cluster()["brokers"]}
dirs = a.describe_log_dirs()
print("RESULT " + json.dumps(dict(racks=brokers, dirs=dirs), default=str))
"""


@pytest.fixture(scope="module")
def ready(running: Lab) -> Lab:
    """The sample, ready."""
    return running


@pytest.mark.capability
def test_racks_disks_and_topics_are_as_the_nodes_are(ready: Lab, spindle_image: str) -> None:
    lab = ready
    answer = json.loads(run_client(lab, "ask", spindle_image, _ASK_KAFKA).split("RESULT ", 1)[1])
    zones = {
        n["metadata"]["name"]: n["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for n in lab.list("nodes")
    }
    brokers = lab.list("kafkabrokers")
    assert len(brokers) == 3
    for broker in brokers:
        spec, status = broker["spec"], broker["status"]
        assert answer["racks"][str(spec["id"])] == zones[spec["node"]] == spec["rack"]
        assert status["disksSummary"] == "2/2", status
        volumes = {disk["pv"] for disk in status["disks"]}
        assert len(volumes) == 2
        for disk in status["disks"]:
            volume = lab.get("persistentvolume", disk["pv"])
            assert volume is not None
            assert volume["spec"]["local"]["path"] == disk["path"]
            assert disk["device"].startswith("/dev/loop")
    assert len({broker["spec"]["rack"] for broker in brokers}) == 3
    for disk in ("disk0", "disk1"):
        assert str(answer["dirs"]).count(f"/var/lib/kafka/disks/{disk}/log") == 3

    lab.spindle("topic", "create", "orders", "-n", lab.namespace, "-c", CLUSTER, "--partitions", "12")
    described = lab.spindle("verify", "-n", lab.namespace, "-c", CLUSTER, "--messages", "10000")
    assert "10,000" in described


def test_what_a_user_sees_reads_well(ready: Lab) -> None:
    rows = ready.kubectl("get", "skc,skb")
    for word in (
        "VERSION",
        "BROKERS",
        "DISKS",
        "3/3",
        "6/6",
        "RACK",
        "zone-a",
        "zone-b",
        "zone-c",
        "Running",
    ):
        assert word in rows, rows
    assert ready.status()["phase"] == "Running: 3 brokers on 3 racks, all 6 disks healthy."
    assert not ready.waits()


def test_a_settled_cluster_is_not_written_to(ready: Lab) -> None:
    kinds = "kafkaclusters,kafkabrokers,pods,pvc,services,configmaps,secrets,pdb"

    def versions() -> dict[str, str]:
        found = ready.list(kinds)
        return {f"{o['kind']}/{o['metadata']['name']}": o["metadata"]["resourceVersion"] for o in found}

    ready.until_ready()
    before = versions()
    # Wake the operator twice with a change outside of the spec.
    for turn in ("one", "two"):
        ready.kubectl("annotate", "kafkacluster", CLUSTER, f"e2e/turn={turn}", "--overwrite")
        ready.until(
            "the operator has reconciled again",
            lambda: ready.condition("Ready").get("status") == "True",
        )
    after = versions()
    changed = {key for key in before if before[key] != after.get(key)} - {f"KafkaCluster/{CLUSTER}"}
    assert not changed


def test_a_client_without_a_certificate_is_refused(ready: Lab, spindle_image: str) -> None:
    program = """
import os, ssl, socket
host, port = os.environ["BOOTSTRAP"].rsplit(":", 1)
context = ssl.create_default_context(cafile="/etc/spindle/credentials/ca.crt")
try:
    with context.wrap_socket(socket.create_connection((host, int(port)), 10), server_hostname=host) as s:
        s.sendall(bytes(8)); s.recv(1)
    print("RESULT let in")
except (ssl.SSLError, ConnectionError) as error:
    print("RESULT refused", error)
"""
    assert "RESULT refused" in run_client(ready, "stranger", spindle_image, program)


def test_the_sample_is_the_one_that_the_readme_shows() -> None:
    assert sample()["spec"]["brokerPools"][0]["disks"]["count"] == 2
