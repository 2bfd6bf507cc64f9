"""Objects in a real API server, and the command ``spindle ui`` as a process, for tests and measurements of the map."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kube.api import Resources


def put(resources: Resources, thing: dict[str, Any]) -> dict[str, Any]:
    """Create an object of Spindle's kinds with its status."""
    made = resources.create({key: value for key, value in thing.items() if key != "status"})
    return report(resources, thing) if "status" in thing else made


def report(resources: Resources, thing: dict[str, Any]) -> dict[str, Any]:
    """Write the status of an object that exists."""
    bare = {key: thing[key] for key in ("apiVersion", "kind")}
    status = {**bare, "metadata": {"name": thing["metadata"]["name"]}, "status": thing["status"]}
    return resources.report(status, "spindle-operator")


@contextmanager
def spindle_ui(kubeconfig: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The running command, and the address that it printed."""
    process = subprocess.Popen(
        (sys.executable, "-m", "spindle_cli.main", "ui", *arguments),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    stop = threading.Timer(60, process.kill)  # reading the address does not end otherwise
    stop.start()
    printed = []
    try:
        for line in process.stdout:
            printed.append(line)
            if "http://" in line:
                stop.cancel()
                yield line.strip(), process
                return
        raise AssertionError(f"spindle ui ended: {''.join(printed)}")
    finally:
        stop.cancel()
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
