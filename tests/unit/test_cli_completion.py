"""The shell completes names of objects from the cluster, namespace and context that the command line names."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.unit import cli_samples as samples

_COMPLETE = "import sys; from spindle_cli.main import complete; complete()"
_LISTS = {
    "kafkaclusters": [samples.ready("demo"), samples.ready("other")],
    "kafkabrokers": [samples.broker(0), samples.broker(1)],
    "kafkausers": [{"metadata": {"name": "orders"}}, {"metadata": {"name": "bad\x1bname"}}],
    "kafkarebalances": [{"metadata": {"name": "demo-1"}}],
}


@pytest.fixture(scope="module")
def asked() -> Iterator[tuple[int, list[str]]]:
    """A port at which the objects above are, and the paths that were asked for."""
    seen: list[str] = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            last = self.path.rpartition("/")[2]
            found = {"items": _LISTS[last]} if last in _LISTS else samples.broker(0)
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, seen
    server.shutdown()
    server.server_close()


def completed(config: Path, *words: str) -> list[str]:
    """What kubectl is told about the last of the words."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPLETE, *words],
        env={**os.environ, "KUBECONFIG": str(config)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()[:-1]


def test_names_come_from_the_cluster(asked: tuple[int, list[str]], tmp_path: Path) -> None:
    port, seen = asked
    config = tmp_path / "config"
    config.write_text(
        json.dumps(
            {
                "current-context": "one",
                "contexts": [
                    {"name": "one", "context": {"cluster": "gone", "user": "u"}},
                    {"name": "two", "context": {"cluster": "c", "user": "u", "namespace": "kafka"}},
                ],
                "clusters": [
                    {"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}},
                    {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}},
                ],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    there = ("--context", "two")

    assert completed(config, *there, "status", "") == ["demo", "other"]
    assert completed(config, *there, "broker", "stop", "demo-broker-") == ["demo-broker-0", "demo-broker-1"]
    assert completed(config, *there, "disk", "drain", "-n", "logs", "demo-broker-0", "") == ["disk0", "disk1"]
    assert seen[-1].endswith("/namespaces/logs/kafkabrokers/demo-broker-0")
    assert completed(config, *there, "user", "password", "") == ["orders"]
    assert completed(config, *there, "rebalance", "show", "d") == ["demo-1"]
    assert completed(config, "status", "") == []  # an API server that is away
