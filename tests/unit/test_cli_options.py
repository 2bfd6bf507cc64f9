"""Options that all commands share, completion, and the plugin for kubectl."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spindle_cli import main, status_commands, terminal
from spindle_cli.copied import Typed
from spindle_cli.kube import Kube
from spindle_cli.options import context_first
from spindle_cli.screen import SafeConsole
from tests.unit import cli_samples as samples
from tests.unit.test_cli_libraries import loaded_by
from tests.unit.test_cli_main import FakeKube

ROOT = Path(__file__).resolve().parents[2]
RUNNER = CliRunner()
_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: first}}
- {name: two, context: {cluster: c, user: u, namespace: second}}
clusters:
- {name: c, cluster: {server: "http://127.0.0.1:1"}}
users:
- {name: u, user: {}}
"""


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("status demo", "status demo"),
        ("status demo --context two", "--context two status demo"),
        ("status --context=two -n x", "--context=two status -n x"),
        ("topic create x -- --context two", "topic create x -- --context two"),
        ("--context two status", "--context two status"),
    ],
)
def test_a_context_may_stand_anywhere(typed: str, read: str) -> None:
    assert context_first(typed.split()) == read.split()


@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [
        ([], "first"),
        (["--context", "two"], "second"),
        (["--context", "two", "status", "-n", "third"], "third"),
    ],
)
def test_the_context_decides_where_a_command_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], namespace: str
) -> None:
    config = tmp_path / "config"
    config.write_text(_KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setattr(Typed, "context", None)
    reached: list[str] = []

    def raw_clusters(kube: Kube) -> list[Any]:
        reached.append(kube.namespace)
        return []

    monkeypatch.setattr(Kube, "raw_clusters", raw_clusters)

    line = [*arguments, *([] if "status" in arguments else ["status"])]
    done = RUNNER.invoke(main.app, line)

    assert done.exit_code == 0, done.output
    assert reached == [namespace]


def test_a_context_that_is_not_there_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(_KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setattr(Typed, "context", None)

    done = RUNNER.invoke(main.app, ["--context", "three", "status"])

    assert done.exit_code == 1
    assert "there is no context three in the kubeconfig; there is one, two" in done.stderr


def test_a_wrong_command_line_has_an_exit_code_of_its_own() -> None:
    assert RUNNER.invoke(main.app, ["status", "-o", "xml"]).exit_code == 2
    assert RUNNER.invoke(main.app, ["nothing"]).exit_code == 2


def test_no_color_switches_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube(samples.ready())
    monkeypatch.setattr(Kube, "connect", lambda namespace=None: kube)
    shown = {}
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        console = SafeConsole(
            force_terminal=True, color_system="standard", markup=False, emoji=False, width=200
        )
        monkeypatch.setattr(status_commands, "console", console)
        shown[value] = RUNNER.invoke(main.app, ["status"]).stdout

    assert "\x1b[32m" in shown[""]
    assert "\x1b[3" not in shown["1"]
    assert terminal.console is not None


def test_kubectl_gets_the_next_words_of_the_plugin() -> None:
    code = "import sys; from spindle_cli.main import complete; sys.argv[1:] = ['disk', '']; complete()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split() == ["drain", "cordon", "release", "accept-loss", ":4"]


def test_the_plugin_is_installed_with_the_command_and_without_the_planners_libraries() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["scripts"]["kubectl-spindle"] == project["scripts"]["spindle"]
    assert not any("scipy" in each or "pyspark" in each for each in project["optional-dependencies"]["cli"])
    loaded = loaded_by("doctor", "--help") | loaded_by("status", KUBECONFIG="/nonexistent")
    assert not loaded & {"numpy", "pandas", "pyarrow", "pyspark", "scipy"}
