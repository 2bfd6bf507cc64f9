"""Which kubeconfigs are read without the Kubernetes client, and what is asked then."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from spindle_cli import direct
from spindle_cli.kube import ConflictError, Kube, KubeError, NotFoundError

PLAIN: dict[str, Any] = {
    "current-context": "one",
    "contexts": [
        {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "first"}},
        {"name": "two", "context": {"cluster": "c", "user": "u"}},
    ],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/prefix"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def configured(
    monkeypatch: pytest.MonkeyPatch, folder: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    made = json.loads(json.dumps(PLAIN))
    made["clusters"][0]["cluster"] |= cluster
    made["users"][0]["user"] = user
    (folder / "config").write_text(yaml.safe_dump(made))
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_a_plain_kubeconfig_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configured(monkeypatch, tmp_path, {"extensions": [{"name": "x"}]}, {"token": "secret"})

    found = direct.direct(None)
    assert found is not None
    assert (found.server, found.namespace) == ("http://127.0.0.1:1/prefix", "first")
    assert found.headers["Authorization"] == "Bearer secret"
    other = direct.direct("two")
    assert other is not None
    assert (other.context, other.namespace) == ("two", None)
    assert direct.direct("three") is None


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({}, {"exec": {"command": "aws"}}, id="exec"),
        pytest.param({}, {"auth-provider": {"name": "oidc"}}, id="oidc"),
        pytest.param({}, {"username": "a", "password": "b"}, id="password"),
        pytest.param({}, {"token": "t", "as": "somebody"}, id="impersonation"),
        pytest.param({"proxy-url": "http://proxy"}, {}, id="proxy"),
        pytest.param({"tls-server-name": "other"}, {}, id="other server name"),
        pytest.param({"server": "127.0.0.1:6443"}, {}, id="no scheme"),
        pytest.param({"server": "https://x", "certificate-authority": "gone"}, {}, id="no such file"),
        pytest.param({"server": "https://x", "certificate-authority-data": "eA=="}, {}, id="no certificate"),
    ],
)
def test_any_other_is_left_to_the_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    configured(monkeypatch, tmp_path, cluster, user)
    assert direct.direct(None) is None


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "http_proxy"])
def test_a_proxy_is_left_to_the_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    configured(monkeypatch, tmp_path, {}, {})
    monkeypatch.setenv(variable, "http://proxy:3128")
    assert direct.direct(None) is None


def test_several_kubeconfigs_are_left_to_the_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configured(monkeypatch, tmp_path, {}, {})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'config'}:{tmp_path / 'config'}")
    assert direct.direct(None) is None


@pytest.fixture
def asked() -> Iterator[tuple[HTTPServer, list[tuple[str, str]]]]:
    """A server that refuses everything, and what it was asked, with which credentials."""
    seen: list[tuple[str, str]] = []

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            status = 404 if "/nothing" in self.path else 403
            body = json.dumps({"message": f"refused {len(seen)}"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, seen
    server.shutdown()
    server.server_close()


def test_a_refusal_is_told_as_the_client_tells_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: tuple[HTTPServer, list[tuple[str, str]]]
) -> None:
    server, seen = asked
    configured(
        monkeypatch, tmp_path, {"server": f"http://127.0.0.1:{server.server_port}/p"}, {"token": "secret"}
    )
    kube = Kube.connect("ns/x")

    with pytest.raises(KubeError, match="KafkaCluster demo: refused 1"):
        kube.raw("KafkaCluster", "demo")
    with pytest.raises(NotFoundError, match="there is no KafkaBroker nothing in namespace ns/x"):
        kube.raw("KafkaBroker", "nothing")
    with pytest.raises(KubeError, match="pods: refused 3"):
        kube.pods("a=b,c=d")

    place = "/p/apis/spindle.dev/v1alpha1/namespaces/ns%2Fx"
    assert [path for path, _ in seen] == [
        f"{place}/kafkaclusters/demo",
        f"{place}/kafkabrokers/nothing",
        "/p/api/v1/namespaces/ns%2Fx/pods?labelSelector=a%3Db%2Cc%3Dd",
    ]
    assert {token for _, token in seen} == {"Bearer secret"}


def test_a_connection_that_the_server_closed_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As an API server does with an idle one, while a command waits between two polls."""
    listening = socket.create_server(("127.0.0.1", 0))
    served: list[bytes] = []

    def serve() -> None:
        for _ in range(2):  # one answer for each connection
            connection, _ = listening.accept()
            with connection:
                served.append(connection.recv(4096))
                body = b'{"items": []}'
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    configured(monkeypatch, tmp_path, {"server": f"http://127.0.0.1:{listening.getsockname()[1]}"}, {})
    kube = Kube.connect()

    assert kube.raw_clusters() == []
    assert kube.raw_clusters() == []

    thread.join(10)
    listening.close()
    assert len(served) == 2
    with pytest.raises(KubeError, match="Kubernetes does not answer: "):
        kube.raw_clusters()


def test_a_server_that_is_away_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configured(monkeypatch, tmp_path, {}, {})
    with pytest.raises(KubeError, match="Kubernetes does not answer: "):
        Kube.connect().raw_clusters()


@pytest.fixture
def pods() -> Iterator[tuple[HTTPServer, list[tuple[str, str, Any]]]]:
    """A server with one pod, whose log breaks off the first time, and what it was sent."""
    sent: list[tuple[str, str, Any]] = []

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent.append(("GET", self.path, None))
            if not self.path.partition("?")[0].endswith("/log"):
                return self.answer(200, {"metadata": {"name": "x"}})
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (b"one\ntw", b"o\nthr"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            if len([each for each in sent if "/log" in each[1]]) > 1:
                self.wfile.write(b"2\r\nee\r\n0\r\n\r\n")
            self.close_connection = True
            return None

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            sent.append((self.command, self.path, json.loads(self.rfile.read(length))))
            gone = self.command == "DELETE" and self.path.endswith("/gone")
            taken = self.command == "POST" and sent[-1][2]["metadata"]["name"] == "taken"
            status = 404 if gone else 409 if taken else 200
            self.answer(status, {"message": "it is there already"})

        def do_DELETE(self) -> None:
            self.do_POST()

        def answer(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, sent
    server.shutdown()
    server.server_close()


def test_a_pod_is_created_followed_and_deleted_without_the_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pods: tuple[HTTPServer, list[tuple[str, str, Any]]]
) -> None:
    server, sent = pods
    configured(monkeypatch, tmp_path, {"server": f"http://127.0.0.1:{server.server_port}"}, {})
    monkeypatch.setattr(Kube, "api", property(lambda _: pytest.fail("the Kubernetes client was used")))
    kube = Kube.connect("ns")

    kube.create_pod({"metadata": {"name": "x"}})
    assert kube.pod("x") == {"metadata": {"name": "x"}}
    assert list(kube.log("x")) == ["one", "two"]  # of a line that broke off the rest is not known
    assert list(kube.log("x")) == ["one", "two", "three"]
    kube.delete_pod("x")
    kube.delete_pod("gone")
    with pytest.raises(ConflictError, match="pod taken: it is there already"):
        kube.create_pod({"metadata": {"name": "taken"}})

    place = "/api/v1/namespaces/ns/pods"
    at_once = {"gracePeriodSeconds": 0}
    assert sent == [
        ("POST", place, {"metadata": {"name": "x"}}),
        ("GET", f"{place}/x", None),
        *[("GET", f"{place}/x/log?follow=true", None)] * 2,
        ("DELETE", f"{place}/x", at_once),
        ("DELETE", f"{place}/gone", at_once),
        ("POST", place, {"metadata": {"name": "taken"}}),
    ]


def test_a_log_that_cannot_be_read_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: tuple[HTTPServer, list[tuple[str, str]]]
) -> None:
    server, _ = asked
    configured(monkeypatch, tmp_path, {"server": f"http://127.0.0.1:{server.server_port}"}, {})

    with pytest.raises(KubeError, match="log of pod x: refused 1"):
        list(Kube.connect("ns").log("x"))
