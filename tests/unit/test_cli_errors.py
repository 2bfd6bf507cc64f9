"""What is broken outside, a kubeconfig, a proxy, an object of another version, is told in one sentence."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spindle_cli import main
from spindle_cli.copied import Typed
from spindle_cli.kube import Kube
from tests.unit import cli_samples as samples

RUNNER = CliRunner()
_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u}}
clusters:
- {name: c, cluster: {server: "http://127.0.0.1:PORT"}}
users:
- {name: u, user: {}}
"""


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(Typed, "context", None)
    return path


def one_sentence(*line: str) -> str:
    """What a failing command says."""
    done = RUNNER.invoke(main.app, list(line))
    assert isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == 1
    assert done.stderr.startswith("spindle: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a: [b\n", id="no YAML"),
        pytest.param(b"\xff\xfe\x00", id="no UTF-8"),
        pytest.param(b"\x00\x01", id="control characters"),
        pytest.param(b"just text\n", id="text"),
        pytest.param(b"- a list\n", id="a list"),
        pytest.param(b"", id="empty"),
        pytest.param(_KUBECONFIG.replace("{cluster: c, user: u}", "null").encode(), id="null context"),
        pytest.param(b"apiVersion: v1\nkind: Config\ncurrent-context: one\ncontexts: null\n", id="null contexts"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [[], ["--context", "one"]])
def test_a_broken_kubeconfig(config: Path, content: bytes, options: list[str]) -> None:
    config.write_bytes(content)
    assert "set KUBECONFIG" in one_sentence(*options, "status")


@pytest.fixture
def login_page(config: Path) -> Iterator[None]:
    """A proxy that answers every request with a page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html>Log in</html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config.write_text(_KUBECONFIG.replace("PORT", str(server.server_port)))
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "line",
    [
        "status",
        "status demo",
        "disk drain demo-broker-0 disk0",
        "user password orders",
        "rebalance list",
        "rebalance run -c demo",
        "backup demo",
        "takeover plan demo",
    ],
)
@pytest.mark.usefixtures("login_page")
def test_an_answer_that_is_no_object(line: str) -> None:
    assert "Kubernetes API server" in one_sentence(*line.split())


def test_an_object_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    config.write_text(_KUBECONFIG.replace("PORT", "1"))
    newer = samples.ready()
    newer["spec"]["controllers"] = "three"
    monkeypatch.setattr(Kube, "_list", lambda kube, plural: [newer])
    monkeypatch.setattr(Kube, "raw", lambda kube, kind, name: newer)

    for line in (["rollout", "restart"], ["pause", "demo"]):
        said = one_sentence(*line)
        assert "KafkaCluster demo has a form that this version of the command does not know" in said
        assert "spec.controllers" in said


def test_a_status_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    config.write_text(_KUBECONFIG.replace("PORT", "1"))
    newer = samples.ready()
    monkeypatch.setattr(Kube, "_list", lambda kube, plural: [newer] if plural == "kafkaclusters" else [])
    monkeypatch.setattr(Kube, "raw", lambda kube, kind, name: newer)
    monkeypatch.setattr(Kube, "pods", lambda kube, selector: [])
    newer["status"]["conditions"] = ["all"]
    for line in (["status"], ["wait", "demo"]):
        assert "KafkaCluster demo, or one of its objects, has a form" in one_sentence(*line)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    for command in ("preview", "restore"):
        said = one_sentence(command, str(file))
        assert str(file) in said
        assert "KUBECONFIG" not in said


def test_ctrl_c_while_a_library_is_imported_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    half_imported = AttributeError("module 'kubernetes' has no attribute 'config'")
    half_imported.__context__ = KeyboardInterrupt()

    def connect(namespace: str | None = None) -> None:
        raise half_imported

    monkeypatch.setattr(Kube, "connect", connect)
    monkeypatch.setattr(sys, "argv", ["spindle", "status"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
