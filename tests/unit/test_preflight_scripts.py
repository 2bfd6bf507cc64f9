"""The readiness script against metrics that are served from a text."""

import http.server
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from spindle.config.server_properties import render
from spindle.model.layout import Layout
from spindle_agent.preflight.handover import hand_over
from spindle_agent.preflight.inputs import Node

START = "process_start_time_seconds 1.763722123456E9"
STATE = "kafka_server_kafkaserver_brokerstate 3.0"
LAG = 'kafka_server_replicafetchermanager_maxlag{clientId="Replica"} '


def text_of(script: str) -> str:
    return resources.files("spindle_agent.preflight").joinpath("data", script).read_text()


class Metrics:
    def __init__(self, folder: Path, port: int) -> None:
        self.text = ""
        self.folder = folder
        self.asked = 0
        self.every = 0
        self.looks = 0
        self.apart = 0
        self.first: list[str] = []  # answers to the first requests, before the text of a call
        (folder / "ready.sh").write_text(text_of("ready.sh").replace("/9404", f"/{port}"))
        for name in ("metrics.sh", "logging.sh"):
            (folder / name).write_text(text_of(name))
        self.role("broker")

    def role(self, role: str) -> None:
        (self.folder / "node.env").write_text(f"ROLE={role}\nBIND=\n")

    def ready(self, *lines: str) -> bool:
        self.text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(
            ["bash", str(self.folder / "ready.sh")],
            env={
                "PATH": os.environ["PATH"],
                "SPINDLE_READY_STATE": str(self.folder / "state"),
                "SPINDLE_READY_EVERY": str(self.every),
                "SPINDLE_READY_LOOKS": str(self.looks),
                "SPINDLE_READY_APART": str(self.apart),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in {0, 1}
        assert not done.stderr
        assert bool(done.stdout) == bool(done.returncode)
        return done.returncode == 0


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked += 1
            self.send_response(200)
            self.end_headers()
            self.wfile.write((served.first.pop(0) if served.first else served.text).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Metrics(tmp_path, server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_ready_at_the_second_look_and_then_whatever_the_lag(metrics: Metrics) -> None:
    assert not metrics.ready(START, STATE, LAG + "0.0")
    assert metrics.ready(START, STATE, LAG + "12.0")
    assert metrics.ready(START, STATE, LAG + "5.0E7")
    assert metrics.ready(START, STATE)


def test_one_call_looks_until_the_broker_has_caught_up_and_then_once_more(
    metrics: Metrics,
) -> None:
    metrics.looks, metrics.apart = 3, 1  # bash counts seconds by the clock's: 1.1 of them may be 2
    metrics.first = [f"{START}\n", f"{START}\n{STATE.replace('3.0', '1.0')}\n"]
    began = time.monotonic()
    assert metrics.ready(START, STATE, LAG + "0.0")
    assert metrics.asked == 4
    assert 3 <= time.monotonic() - began < 10  # the kubelet would end it


def test_two_looks_that_confirm_each_other_are_apart(metrics: Metrics) -> None:
    assert not metrics.ready(START, STATE, LAG + "0.0")
    metrics.apart = 3600
    assert not metrics.ready(START, STATE, LAG + "0.0")
    metrics.apart = 0
    assert metrics.ready(START, STATE, LAG + "0.0")


def test_a_call_ends_before_the_kubelet_ends_it(metrics: Metrics) -> None:
    metrics.looks, metrics.apart = 4, 2  # so that what bash adds changes nothing: 2.1 s may be 3 by its clock
    began = time.monotonic()
    assert not metrics.ready(START, STATE.replace("3.0", "1.0"))
    assert 4 <= time.monotonic() - began < 10
    assert metrics.asked == 3


def test_the_first_failure_of_a_broker_that_was_ready_counts(metrics: Metrics) -> None:
    assert not metrics.ready(START, STATE)
    assert metrics.ready(START, STATE)
    metrics.looks, metrics.apart = 2, 1
    assert not metrics.ready(START, STATE.replace("3.0", "6.0"))
    assert metrics.asked == 3


@pytest.mark.parametrize("lag", ["1001.0", "1.2345678E7"])
def test_lag_starts_the_count_anew(metrics: Metrics, lag: str) -> None:
    assert not metrics.ready(START, STATE, LAG + "0.0")
    assert not metrics.ready(START, STATE, LAG + lag)
    assert not metrics.ready(START, STATE, LAG + "0.0")
    assert metrics.ready(START, STATE, LAG + "0.0")


def test_another_process_starts_the_count_anew(metrics: Metrics) -> None:
    assert not metrics.ready(START, STATE)
    assert metrics.ready(START, STATE)
    assert not metrics.ready(START.replace("E9", "7E9"), STATE)


def test_a_broker_that_is_ready_is_asked_for_its_metrics_now_and_then(metrics: Metrics) -> None:
    metrics.every = 3600
    assert not metrics.ready(START, STATE)
    assert [metrics.ready(START, STATE) for _ in range(4)] == [True] * 4
    assert metrics.asked == 2
    metrics.every = 0
    assert not metrics.ready(START, STATE.replace("3.0", "6.0"))
    metrics.every = 3600
    # After a failure, and after a clock was set back, each check asks again.
    assert not metrics.ready(START, STATE.replace("3.0", "6.0"))
    (metrics.folder / "state").write_text(f"1.763722123456E9 2 {int(time.time()) + 600}\n")
    assert not metrics.ready(START, STATE.replace("3.0", "6.0"))
    assert metrics.asked == 5


def test_a_broker_that_does_not_listen_any_more_is_not_ready_at_once(metrics: Metrics) -> None:
    metrics.every = 3600
    script = metrics.folder / "ready.sh"
    (metrics.folder / "state").write_text(f"1.763722123456E9 2 {int(time.time())}\n")
    assert metrics.ready(START, STATE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens
        text = re.sub(r"/\d+\"$", f'/{free.getsockname()[1]}"', script.read_text(), flags=re.MULTILINE)
        script.write_text(text)
        assert not metrics.ready(START, STATE)


@pytest.mark.parametrize("state", ["1.0", "2.0", "6.0", "127.0"])
def test_broker_that_does_not_run_is_not_ready(metrics: Metrics, state: str) -> None:
    for _ in range(3):
        assert not metrics.ready(START, STATE.replace("3.0", state), LAG + "0.0")
    assert not metrics.ready(START)
    assert not metrics.ready()


def test_controller_is_ready_with_a_leader_and_something_committed(metrics: Metrics) -> None:
    metrics.role("controller")
    leader, committed = (
        "kafka_server_raft_metrics_current_leader ",
        "kafka_server_raft_metrics_high_watermark ",
    )
    assert metrics.ready(START, leader + "9000.0", committed + "1.2E7")
    assert not metrics.ready(START, leader + "9000.0", committed + "-1.0")
    assert not metrics.ready(START, leader + "9000.0", committed + "0.0")
    assert not metrics.ready(START, leader + "9000.0")
    assert not metrics.ready(START, leader + "-1.0", committed + "5.0")
    assert not metrics.ready(START)


def test_the_line_before_the_log_dirs_does_not_continue(tmp_path: Path) -> None:
    """A value of spaces is written as a backslash and spaces; without these the log dirs would be a part of it, and Kafka would use /tmp."""
    layout = Layout(str(tmp_path))
    for folder in (layout.handover_dir, layout.disks_root):
        Path(folder).mkdir(parents=True)
    (tmp_path / "jmx.jar").write_bytes(b"")
    properties = render({"node.id": "0", "zz": " "})
    node = Node("id", 0, "broker", "4.3", shared_filesystem=False, voters=(), properties=properties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINDLE_JMX_JAR", str(tmp_path / "jmx.jar"))
        hand_over(layout, node, [])
    lines = (Path(layout.handover_dir) / "server.properties").read_text().splitlines()
    assert lines[-1].startswith("log.dirs=")
    assert not lines[-2].endswith("\\")


def test_what_a_configmap_says_is_a_word_for_the_shell_and_never_a_command(tmp_path: Path) -> None:
    made = tmp_path / "made"
    evil = f"broker\ntouch {made}\n$(touch {made})`touch {made}`;touch {made}"
    layout = Layout(str(tmp_path))
    for folder in (layout.handover_dir, layout.disks_root):
        Path(folder).mkdir(parents=True)
    (tmp_path / "jmx.jar").write_bytes(b"")
    node = Node("id", 0, evil, "4.3", shared_filesystem=False, voters=(), properties="", bind=evil)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINDLE_JMX_JAR", str(tmp_path / "jmx.jar"))
        hand_over(layout, node, [])
    script = f'. {layout.handover_dir}/node.env; printf %s "$ROLE|$BIND"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{evil}|{evil}"
    assert not made.exists()
