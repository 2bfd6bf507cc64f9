"""``spindle report`` against a real API server, and a kubelet that only has logs: no key and no password is in the bundle, in any form."""

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from kubernetes import client

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.pki import Authority
from spindle.api import names
from tests import map_samples
from tests.kube.api import Resources
from tests.map_server import put

pytestmark = pytest.mark.kube

_FORM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
KEYS = [
    ec.generate_private_key(ec.SECP256R1()).private_bytes(*_FORM).decode(),
    rsa.generate_private_key(65537, 2048).private_bytes(*_FORM).decode(),
]
PASSWORDS = [
    "kQ7-vBx.29Zr_mLw+84Tt",
    "hunter2",
    "correct horse battery staple",
    "Zq9$kk!",
    "two\nlines-of-a-password",
]


def lines_of_log() -> str:
    """What a program that talks too much would log."""
    said = ["INFO Kafka starts", "WARN orders-17 is under min.insync.replicas"]
    for secret in (*KEYS, *PASSWORDS):
        said += [
            f"ERROR cannot use {secret}",
            f"DEBUG header {_coded(secret)}",
            f"DEBUG basic {_coded('admin:' + secret)}",
        ]
        said += [f"TRACE part {line}" for line in secret.splitlines() if not line.startswith("-----")]
    said += [
        f"DEBUG cut {PASSWORDS[0][:16]}",
        f"DEBUG cut {KEYS[1][200:280]}",
        "INFO ssl.keystore.password=plainly-here-1",
    ]
    return "\n".join(said) + "\n"


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Logs(http.server.BaseHTTPRequestHandler):
    """The part of a kubelet that has the logs of containers."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(lines_of_log().encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    certificate, key = Authority(tmp_path_factory.mktemp("pki")).issue(
        "kubelet", "kubelet", hosts=["127.0.0.1"]
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Logs)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def secrets(api_client: client.ApiClient, namespace: str) -> None:
    """Every key and password, in Secrets."""
    core: Any = client.CoreV1Api(api_client)
    for number, secret in enumerate((*KEYS, *PASSWORDS)):
        key = "tls.key" if secret in KEYS else "password"
        applied = {
            "kubectl.kubernetes.io/last-applied-configuration": f'{{"stringData": {{"x": "{_coded(secret)}"}}}}'
        }
        body = {
            "metadata": {"name": f"secret-{number}", "annotations": applied},
            "stringData": {key: secret, "ca.crt": "public"},
        }
        core.create_namespaced_secret(namespace, body)


@pytest.fixture
def cluster(
    api_client: client.ApiClient, resources: Resources, namespace: str, secrets: None, kubelet: int
) -> str:
    """A cluster whose objects repeat the keys and passwords wherever somebody could have put them."""
    core: Any = client.CoreV1Api(api_client)
    entry = map_samples.waiting(
        "RestartBroker", "demo-broker-0", "WouldBeUnderMinIsr", f"failed: {PASSWORDS[0]}", PASSWORDS[1]
    )
    put(resources, map_samples.cluster("demo", 3, 2, waiting=[entry]))
    made = put(resources, map_samples.broker("demo", 0, 2))
    core.create_namespaced_event(
        namespace, map_samples.event(made, "Failed", f"login with {PASSWORDS[2]} failed", 1)
    )
    labels = {names.LABEL_CLUSTER: "demo"}
    properties = f"listener.name.client.ssl.keystore.key={KEYS[0]}\nssl.key.password={PASSWORDS[1]}\nnum.io.threads=8\n"
    data = {"server.properties": properties, "note": f"base64: {_coded(PASSWORDS[3])}"}
    core.create_namespaced_config_map(
        namespace, {"metadata": {"name": "demo-broker-0-config", "labels": labels}, "data": data}
    )
    node = f"node-{namespace}"
    core.create_node({"metadata": {"name": node, "annotations": {"example.org/token": PASSWORDS[0]}}})
    core.patch_node_status(
        node,
        {
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
            }
        },
    )
    container = {
        "name": "kafka",
        "image": "apache/kafka:4.3.1",
        "args": [f"--password={PASSWORDS[2]}", f"--config={PASSWORDS[0]}"],
        "env": [{"name": "HARMLESS", "value": PASSWORDS[4]}, {"name": "X", "value": "env-only-value"}],
    }
    pod = {
        "metadata": {"name": "demo-broker-0", "labels": labels},
        "spec": {"containers": [container], "nodeName": node},
    }
    core.create_namespaced_pod(namespace, pod)
    started = {
        "name": "kafka",
        "image": "x",
        "imageID": "x",
        "ready": True,
        "restartCount": 1,
        "state": {"running": {}},
    }
    core.patch_namespaced_pod_status("demo-broker-0", namespace, {"status": {"containerStatuses": [started]}})
    return "demo"


@pytest.fixture
def bundle(api_server: ApiServer, namespace: str, cluster: str, tmp_path: Path) -> dict[str, str]:
    """The files of the bundle, by path, without its folder."""
    out = tmp_path / "bundle.tar.gz"
    done = subprocess.run(
        (sys.executable, "-m", "spindle_cli.main", "report", cluster, "-n", namespace, "-o", str(out)),
        env={**os.environ, "KUBECONFIG": str(api_server.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert out.stat().st_mode & 0o077 == 0
    with tarfile.open(out) as archive:
        files = {each.name: archive.extractfile(each) for each in archive.getmembers()}
        return {name.removeprefix("bundle/"): file.read().decode() for name, file in files.items() if file}


def forms(secret: str) -> Iterator[str]:
    """Everything of which nothing may be in the bundle: the secret, its lines, parts of 16 characters, and all of that in base64."""
    pieces = {
        secret,
        *(line for line in secret.splitlines() if not line.startswith("-----") and len(line) > 4),
    }
    for piece in pieces:
        for text in (piece, _coded(piece)):
            yield text
            yield from (
                text[at : at + 16] for at in range(len(text) - 16) if "-----" not in text[at : at + 16]
            )
        # In base64, what stands before shifts the characters.
        yield from (_coded("x" * shift + piece)[4:-4] for shift in (1, 2) if len(piece) > 8)


def test_no_key_and_no_password_is_in_the_bundle_and_what_support_needs_is(
    bundle: dict[str, str], namespace: str
) -> None:
    text = "\n".join([*bundle, *bundle.values()])
    public = base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()
    found = {
        form
        for secret in (*KEYS, *PASSWORDS)
        for form in forms(secret)
        if form in text and form not in public
    }
    assert found == set()

    assert f"resources/{namespace}/kafkaclusters/demo.yaml" in bundle
    assert "WouldBeUnderMinIsr" in bundle["kafka.json"]
    assert "demo-broker-0" in bundle["kafka.json"]
    assert "num.io.threads=8" in bundle[f"resources/{namespace}/configmaps/demo-broker-0-config.yaml"]
    log = bundle[f"logs/{namespace}/demo-broker-0/kafka.log"]
    assert "WARN orders-17 is under min.insync.replicas" in log
    assert "plainly-here-1" not in log
    assert f"logs/{namespace}/demo-broker-0/kafka.previous.log" in bundle
    assert '"secret-0"' in bundle["secrets.json"]
    assert '"tls.key"' in bundle["secrets.json"]
    assert "login with" in bundle["events.json"]
    assert "gitVersion" in bundle["versions.json"]
    assert bundle["problems.txt"] == "none"
    pod = bundle[f"resources/{namespace}/pods/demo-broker-0.yaml"]
    assert "HARMLESS" in pod
    assert "env-only-value" not in pod


def test_what_cannot_be_read_is_told(
    api_server: ApiServer, namespace: str, resources: Resources, tmp_path: Path
) -> None:
    """A user who may only read KafkaClusters gets a bundle, and the list of what is missing."""
    put(resources, map_samples.cluster("demo", 3, 2))
    arguments = ("--verb=get,list", "--resource=kafkaclusters.spindle.dev")
    api_server.kubectl("-n", namespace, "create", "serviceaccount", "reader")
    api_server.kubectl("-n", namespace, "create", "role", "reader", *arguments)
    api_server.kubectl(
        "-n",
        namespace,
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        f"--serviceaccount={namespace}:reader",
    )
    token = api_server.kubectl("-n", namespace, "create", "token", "reader").strip()
    config = json.loads(api_server.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))

    done = subprocess.run(
        (
            sys.executable,
            "-m",
            "spindle_cli.main",
            "report",
            "-n",
            namespace,
            "-o",
            str(tmp_path / "x.tar.gz"),
        ),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert "not included" in done.stderr
    assert "secrets is forbidden" in done.stderr
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        assert f"x/resources/{namespace}/kafkaclusters/demo.yaml" in archive.getnames()
