"""CPU time of commands, as a multiple of that of a Python that does nothing.

The API server is this process, over TLS and with a client certificate, as a usual kubeconfig has it. The time is user and system time of the
command's process alone; each figure is the median of the runs, and the runs of all commands alternate, so that another load on the machine
touches all of them.

    python -m bench.commands [--runs 11]
"""

import argparse
import base64
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml
from rich.console import Console

from tests.unit import cli_samples as samples

console: Final = Console(highlight=False)

NOTHING: Final = (sys.executable, "-c", "pass")
COMMANDS: Final = ("--help", "disk --help", "status", "status -o json", "rollout status", "explain NodeLost")
GOAL: Final = 20  # times the CPU of NOTHING, for --help and status
# One certificate for both sides, which is its own CA.
_CERTIFICATE: Final = (
    *(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ),
    *("-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1"),
)
_LISTS: Final[dict[str, list[dict[str, Any]]]] = {
    "kafkaclusters": [samples.ready()],
    "kafkabrokers": [samples.broker(number) for number in range(3)],
    "pods": [samples.pod(f"demo-controller-{number}") for number in range(3)],
}


class _Api(BaseHTTPRequestHandler):
    """Answers every read with the objects above."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        last = self.path.partition("?")[0].rpartition("/")[2]
        found = {"items": _LISTS[last]} if last in _LISTS else samples.ready(last)
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def api_server(folder: Path) -> Iterator[Path]:
    """A server with a cluster of three brokers; its kubeconfig."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run((*_CERTIFICATE, "-keyout", key, "-out", certificate), check=True, capture_output=True)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    trust.load_cert_chain(certificate, key)
    trust.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    server.socket = trust.wrap_socket(server.socket, server_side=True)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [
            {
                "name": "bench",
                "cluster": {
                    "server": f"https://127.0.0.1:{server.server_port}",
                    "certificate-authority-data": _text(certificate),
                },
            }
        ],
        "users": [
            {
                "name": "bench",
                "user": {
                    "client-certificate-data": _text(certificate),
                    "client-key-data": _text(key),
                },
            }
        ],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield path
    finally:
        server.shutdown()
        server.server_close()


def cpu_seconds(command: tuple[str, ...], environment: dict[str, str]) -> float:
    """User and system time of one run.

    Raises:
        RuntimeError: the command failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Print a line for each command; 1 if one of the goals is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    spindle = str(Path(sys.executable).with_name("spindle"))
    lines = {"": NOTHING, **{each: (spindle, *each.split()) for each in COMMANDS}}
    took: dict[str, list[float]] = {each: [] for each in lines}
    with tempfile.TemporaryDirectory() as folder, api_server(Path(folder)) as config:
        environment = {**os.environ, "KUBECONFIG": str(config)}
        for number in range(runs + 1):
            for each, command in lines.items():
                seconds = cpu_seconds(command, environment)
                if number:  # the first run compiles
                    took[each].append(seconds)
    base = median(took.pop(""))
    console.print(f"python -c pass: {1000 * base:.1f} ms of CPU; {runs} runs")
    ratios = {each: median(times) / base for each, times in took.items()}
    for each, ratio in ratios.items():
        console.print(f"spindle {each:18} {1000 * median(took[each]):6.1f} ms {ratio:6.1f} times")
    return 0 if all(ratios[each] <= GOAL for each in ("--help", "status")) else 1


def _text(pem: Path) -> str:
    return base64.b64encode(pem.read_bytes()).decode()


if __name__ == "__main__":
    sys.exit(main())
