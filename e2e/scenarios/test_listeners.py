"""Listeners, users, the account of an agent, and a CA that is replaced while Kafka serves."""

import base64
import json
from functools import partial
from typing import Any, Final

import pytest
from cryptography import x509

from e2e.scenarios.issuer import NAME as ISSUER
from e2e.scenarios.issuer import Issuer
from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.reach import waiting_pod
from spindle_operator import ca

pytestmark = pytest.mark.e2e

_AGENTS: Final = "spindle-agents"
_INSIDE: Final = {"name": "inside", "port": 9095, "auth": "scram"}
_NODES: Final = {"name": "nodes", "port": 9096, "type": "nodeport"}
_BARE: Final = {
    "name": "bare",
    "port": 9097,
    "type": "nodeport",
    "auth": "none",
    "tls": False,
    "nodePortBase": 31500,
    "maxConnections": 50,
}
# In a pod: the ports that the brokers advertise to a client without TLS.
_PORTS: Final = """
import json, sys
from kafka.admin import KafkaAdminClient
client = KafkaAdminClient(bootstrap_servers=sys.argv[1].split(","), security_protocol="PLAINTEXT")
print(json.dumps(sorted(broker["port"] for broker in client.describe_cluster()["brokers"])))
client.close()
"""
# In a pod: the certificate that a server presents, as PEM.
_PRESENTED: Final = """
import ssl, sys
host, _, port = sys.argv[1].rpartition(":")
print(ssl.get_server_certificate((host, int(port)), timeout=10))
"""
# In a pod: whether a client with a token may create a topic.
_CREATES: Final = """
import ssl, sys
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAuthorizationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider
class Held(AbstractTokenProvider):
    def token(self):
        return sys.argv[2]
context = ssl.create_default_context(cadata=sys.argv[3])
try:
    client = KafkaAdminClient(
        bootstrap_servers=sys.argv[1], security_protocol="SASL_SSL", ssl_context=context,
        sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Held(), bootstrap_timeout_ms=20000,
    )
except (KafkaError, OSError):
    print("not let in")
    sys.exit()
try:
    client.create_topics({"token-topic": {"num_partitions": 1, "replication_factor": 1}})
    print("created")
except TopicAuthorizationFailedError:
    print("TopicAuthorizationFailedError")
"""
_NAMED: Final = {
    "name": "named",
    "port": 9098,
    "type": "nodeport",
    "advertisedHostTemplate": "broker-{nodeId}.kafka.example.com",
}
_TURN: Final = 1500.0  # three rolling restarts of six pods, and clientGraceSeconds twice, on a small machine


def user(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaUser",
        "metadata": {"name": name},
        "spec": {"cluster": CLUSTER, **spec},
    }


def is_ready(lab: Lab, name: str) -> bool:
    conditions = (lab.the("kafkauser", name).get("status") or {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def has_no_secret(lab: Lab, name: str) -> bool:
    return lab.get("secret", f"{CLUSTER}.user.{name}") is None


def secret(lab: Lab, name: str) -> dict[str, str]:
    data = lab.the("secret", name)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def hosts_of(pem: bytes) -> list[str]:
    """The DNS names in a certificate."""
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return found.value.get_values_for_type(x509.DNSName)


def starts(lab: Lab) -> dict[str, str]:
    """Creation time of each pod of Kafka."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"]
        for pod in lab.list("pods", "spindle.dev/role")
    }


def test_listeners_are_opened_by_a_roll_of_the_brokers_alone(running: Lab) -> None:
    lab = running
    before = starts(lab)
    lab.patch("kafkacluster", CLUSTER, {"spec": {"listeners": [_INSIDE, _NODES, _BARE, _NAMED]}})
    lab.until(
        "the nodes' listener is advertised to clients",
        lambda: (
            {each["name"]: each["bootstrap"] for each in lab.status()["listeners"]}["nodes"].count(",") == 2
        ),
        600,
    )
    lab.until_ready(600)
    after = starts(lab)
    assert {name for name in before if before[name] != after[name]} == {
        f"{CLUSTER}-broker-{number}" for number in range(3)
    }
    addresses = {
        entry["address"]
        for node in json.loads(lab.kubectl("get", "nodes", "-o", "json"))["items"]
        for entry in node["status"]["addresses"]
        if entry["type"] == "InternalIP"
    }
    told = {each["name"]: each["bootstrap"] for each in lab.status()["listeners"]}
    assert {address.rpartition(":")[0] for address in told["nodes"].split(",")} <= addresses
    assert {address.rpartition(":")[2] for address in told["bare"].split(",")} == {"31500", "31501", "31502"}
    assert "broker-2.kafka.example.com:" in told["named"]


def test_a_listener_without_tls_is_reached_by_its_node_ports(running: Lab, spindle_image: str) -> None:
    """It depends on the scenario before it."""
    told = {each["name"]: each["bootstrap"] for each in running.status()["listeners"]}
    running.apply(
        waiting_pod("client", spindle_image, running.the("pod", f"{CLUSTER}-broker-0")["spec"]["nodeName"])
    )
    running.kubectl("wait", "pod/client", "--for=condition=Ready", "--timeout=120s", timeout=150)
    ports = running.kubectl(
        "exec", "client", "--", "/opt/spindle/venv/bin/python", "-c", _PORTS, told["bare"]
    )
    assert json.loads(ports) == [31500, 31501, 31502]
    names = json.loads(running.kubectl("get", "secret", f"{CLUSTER}-broker-1-tls", "-o", "json"))["data"]
    certificate = base64.b64decode(names["tls.crt"])
    assert "broker-1.kafka.example.com" in hosts_of(certificate)


def served(lab: Lab, address: str) -> x509.Certificate:
    """The certificate that a listener presents, as a pod in the cluster sees it."""
    text = lab.kubectl("exec", "client", "--", "/opt/spindle/venv/bin/python", "-c", _PRESENTED, address)
    return x509.load_pem_x509_certificate(text.encode())


def own(lab: Lab, *hosts: str) -> bytes:
    """Put a certificate of an authority that the cluster does not know into a Secret that the cluster may use."""
    made = ca.issue(ca.make_ca("elsewhere"), "kafka", hosts)
    lab.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "kafka-own", "labels": {"spindle.dev/usable-by": CLUSTER}},
            "data": {key: base64.b64encode(made[key]).decode() for key in ("tls.crt", "tls.key")},
        }
    )
    return made["tls.crt"]


def test_a_listener_presents_its_own_certificate_and_takes_up_another_without_a_restart(running: Lab) -> None:
    """It depends on the scenarios before it."""
    lab = running
    hosts = [f"broker-{number}.kafka.example.com" for number in range(3)]
    first = x509.load_pem_x509_certificate(own(lab, *hosts))
    listener = {**_NAMED, "certificate": {"secretName": "kafka-own"}}
    lab.patch("kafkacluster", CLUSTER, {"spec": {"listeners": [_INSIDE, _NODES, _BARE, listener]}})
    address = f"{CLUSTER}-broker-0.{CLUSTER}-brokers.{lab.namespace}.svc:{_NAMED['port']}"
    lab.until("the listener presents the Secret's certificate", lambda: served(lab, address) == first, 600)
    lab.until_ready(600)
    before = starts(lab)
    own(lab, "elsewhere.example.com")
    lab.until_waiting("ListenerCertificateInvalid")
    second = x509.load_pem_x509_certificate(own(lab, *hosts))
    lab.until("it presents the new certificate", lambda: served(lab, address) == second, 400)
    assert starts(lab) == before


def test_tokens_of_an_issuer_let_in_and_a_kafka_user_gives_their_principal_rights(
    running: Lab, spindle_image: str
) -> None:
    """It depends on the scenarios before it."""
    lab, issuer = running, Issuer(running.namespace)
    node = lab.the("pod", f"{CLUSTER}-broker-0")["spec"]["nodeName"]
    lab.apply(*issuer.objects(spindle_image, node))
    lab.kubectl("wait", f"pod/{ISSUER}", "--for=condition=Ready", "--timeout=120s", timeout=150)
    listener = {"name": "tokens", "port": 9099, "auth": "oauth", "oauth": issuer.oauth}
    lab.patch("kafkacluster", CLUSTER, {"spec": {"listeners": [_INSIDE, _NODES, _BARE, listener]}})
    acls = [{"resource": "topic", "name": "token-topic", "operations": ["Create", "Write", "Describe"]}]
    lab.apply(user("tokens", authentication="oauth", principal="client|1", acls=acls))
    lab.until("the user has its rights", partial(is_ready, lab, "tokens"))
    assert has_no_secret(lab, "tokens")
    lab.until(
        "the listener is open",
        lambda: "tokens" in {each["name"] for each in lab.status()["listeners"] if each["bootstrap"]},
        600,
    )
    lab.until_ready(600)
    bootstrap = f"{CLUSTER}-bootstrap-tokens.{lab.namespace}.svc:9099"
    authority = secret(lab, f"{CLUSTER}-admin")["ca.crt"]

    def said(token: str) -> str:
        program = ("/opt/spindle/venv/bin/python", "-c", _CREATES, bootstrap, token, authority)
        return lab.kubectl("exec", "client", "--", *program, timeout=90).strip()

    assert said(issuer.token("client|1")) == "created"
    assert said(issuer.token("client|2")) == "TopicAuthorizationFailedError"
    assert said(issuer.token("client|1", "another")) == "not let in"
    lab.kubectl("delete", "kafkauser", "tokens", timeout=120)


def test_a_user_has_its_secret_and_its_rights_and_leaves_nothing_behind(running: Lab) -> None:
    lab = running
    acls = [{"resource": "topic", "name": "orders", "operations": ["Read", "Describe"]}]
    lab.apply(user("orders", acls=acls), user("alice", authentication="scram"))
    for name in ("orders", "alice"):
        lab.until(f"{name} has everything that it requests", partial(is_ready, lab, name))
    assert secret(lab, f"{CLUSTER}.user.orders")["tls.crt"].startswith("-----BEGIN CERTIFICATE")
    assert "ScramLoginModule" in secret(lab, f"{CLUSTER}.user.alice")["sasl.jaas.config"]
    lab.kubectl("delete", "kafkauser", "orders", "alice", timeout=120)
    for name in ("orders", "alice"):
        lab.until(f"the Secret of {name} is gone", partial(has_no_secret, lab, name))


def test_the_agents_account_reads_no_secret_of_others(running: Lab) -> None:
    account = f"system:serviceaccount:{_AGENTS}:spindle-agent"
    for verb in ("get", "list", "watch"):
        answer = running.kubectl("auth", "can-i", verb, "secrets", "--as", account, check=False)
        assert answer.strip().startswith("no"), (verb, answer)


def test_the_authority_is_replaced_while_the_cluster_serves(running: Lab) -> None:
    lab = running
    old = secret(lab, f"{CLUSTER}-ca")["ca.crt"]
    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"rotate": "1", "clientGraceSeconds": 120}}})
    lab.until_waiting("CaReplaced")

    def replaced() -> bool:
        authority = secret(lab, f"{CLUSTER}-ca")
        return authority["ca.crt"] != old and not {"next.crt", "old.crt"} & authority.keys()

    lab.until("the old CA is no longer trusted", replaced, _TURN)
    lab.until_ready(600)
    new = secret(lab, f"{CLUSTER}-ca")["ca.crt"]
    for name in (f"{CLUSTER}-admin", f"{CLUSTER}-operator", f"{CLUSTER}-broker-0-tls"):
        assert secret(lab, name)["ca.crt"] == new
    lab.spindle("verify", "-n", lab.namespace, "-c", CLUSTER, timeout=600)
