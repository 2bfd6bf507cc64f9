"""The command line imports large libraries only in commands that use them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = {"aiohttp", "kafka", "kubernetes", "pydantic", "urllib3"}
_KUBECONFIG = """
current-context: one
contexts: [{name: one, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""

_SHOW = """
import contextlib, io, json, sys
sys.argv = ["spindle", *sys.argv[1:]]
from spindle_cli import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main.main()
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules if "." in name})))
"""


def loaded_by(*arguments: str, **environment: str) -> set[str]:
    """Packages of which a command loads more than the first, unused module."""
    done = subprocess.run(
        [sys.executable, "-c", _SHOW, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment,
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("topic", "create", "--help"),
        ("ui", "--help"),
        ("report", "--help"),
        ("explain", "NodeLost"),
    ],
)
def test_commands_that_connect_to_nothing_load_no_client(arguments: tuple[str, ...]) -> None:
    assert not loaded_by(*arguments) & {"aiohttp", "kafka", "kubernetes", "urllib3"}


def test_help_and_status_load_nothing_that_is_slow_to_import(tmp_path: Path) -> None:
    assert not loaded_by("--help") & {*SLOW, "rich", "spindle", "yaml"}
    assert not loaded_by("disk", "drain", "--help") & SLOW
    config = tmp_path / "config"
    config.write_text(_KUBECONFIG)
    found = loaded_by("status", "-n", "x", "-o", "wide", KUBECONFIG=str(config))
    assert not found & SLOW
    assert "rich" in found


def test_a_command_for_kubernetes_loads_no_client_of_kafka() -> None:
    found = loaded_by("status", KUBECONFIG="/nonexistent")
    assert "kubernetes" in found
    assert "kafka" not in found


def test_a_command_for_kafka_loads_no_client_of_kubernetes() -> None:
    # The folder has no certificates, so that no connection is tried.
    found = loaded_by("topic", "list", SPINDLE_CREDENTIALS="/nonexistent", SPINDLE_BOOTSTRAP="127.0.0.1:1")
    assert "kafka" in found
    assert "kubernetes" not in found
