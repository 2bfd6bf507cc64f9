"""The chart, rendered by the real helm."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_helm

CHART = Path(__file__).resolve().parents[2] / "charts/spindle"

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs helm; the answer is for the test to judge."""
    program = ensure_helm()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Render:
    """Every object of the chart with these values (``--set`` syntax, and a file), in the namespace ``system``."""

    def rendered(*settings: str, values: Path | None = None) -> list[dict[str, Any]]:
        options = [part for setting in settings for part in ("--set", setting)]
        if values is not None:
            options += ["--values", str(values)]
        done = helm("template", "spindle", str(CHART), "--namespace", "system", *options)
        assert done.returncode == 0, done.stderr
        return [made for made in yaml.safe_load_all(done.stdout) if made]

    return rendered
