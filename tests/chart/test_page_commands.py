"""Command lines of helm on the pages, and the values that they set, are what the real helm and the chart's schema take."""

import subprocess
from collections.abc import Callable
from typing import Final

import pytest

from tests.chart.conftest import CHART
from tests.pages import ROOT, Command, commands

Helm = Callable[..., subprocess.CompletedProcess[str]]

# The chart in the repository stands for the chart that the reader has.
CHARTS: Final = {"charts/spindle", "<chart>", "spindle-1.2.3.tgz"}
VALUES: Final = ROOT / "examples/monitoring-values.yaml"
# Options that only an installation has.
ONLY_INSTALL: Final = {"--create-namespace", "--reuse-values", "--reset-values", "--install"}


def refusal(command: Command, helm: Helm) -> str | None:
    """What helm says against a command line, read as it is and then rendered without a cluster."""
    words = list(command.words[1:])
    read = helm(*words, "--help")
    if read.returncode or not command.whole:
        return read.stderr or None
    if words[0] not in {"install", "upgrade", "template"}:
        return None
    stand_ins = {**dict.fromkeys(CHARTS, str(CHART)), "values.yaml": str(VALUES)}
    rest = [stand_ins.get(word, word) for word in words[1:] if word not in ONLY_INSTALL]
    return helm("template", *rest).stderr or None


def test_command_lines_of_helm_are_taken(helm: Helm) -> None:
    found = {each.words: each for each in commands("helm")}.values()

    assert [(each.place, said) for each in found if (said := refusal(each, helm))] == []
    assert len(found) > 5


@pytest.mark.parametrize(
    "line",
    [
        "helm install spindle charts/spindle --set watch.everything=true",
        "helm install spindle charts/spindle --set metrics.rules.enabled=perhaps",
        "helm instal spindle charts/spindle",
        "helm upgrade spindle charts/spindle --reuse-value",
    ],
)
def test_a_wrong_command_line_is_noticed(line: str, helm: Helm) -> None:
    assert refusal(Command("page:1", tuple(line.split()), whole=True), helm)


def test_single_values_on_pages_are_taken(helm: Helm) -> None:
    """Within a sentence: `--set watch.all=true`."""
    found = commands("--set")
    for each in found:
        words = [word.replace("sha256:…", f"sha256:{'0' * 64}") for word in each.words]
        done = helm("template", "spindle", str(CHART), *words)
        assert done.returncode == 0, f"{each.place}: {done.stderr}"
    assert len(found) > 2


def test_the_example_of_values_is_taken(helm: Helm) -> None:
    done = helm("template", "spindle", str(CHART), "--values", str(VALUES))
    assert done.returncode == 0, done.stderr
