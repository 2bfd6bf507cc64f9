"""The chart as it is in a release."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.chart.conftest import CHART
from tools.release.chart import pack

Helm = Callable[..., subprocess.CompletedProcess[str]]


def test_helm_installs_the_packed_chart_with_the_images_of_its_version(helm: Helm, tmp_path: Path) -> None:
    archive = tmp_path / "spindle-1.2.3.tgz"
    pack(CHART, "1.2.3", archive)

    shown = helm("show", "chart", str(archive))
    told = yaml.safe_load(shown.stdout)
    linted = helm("lint", "--strict", str(archive))
    made = helm("template", "spindle", str(archive), "--set=image.registry=registry.example")

    assert (told["version"], told["appVersion"]) == ("1.2.3", "1.2.3")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert made.returncode == 0, made.stderr
    assert 'image: "registry.example/spindle:1.2.3"' in made.stdout
    assert helm("show", "readme", str(archive)).stdout.strip() == (CHART / "README.md").read_text().strip()


def test_it_is_packed_the_same_twice(tmp_path: Path) -> None:
    pack(CHART, "1.2.3", tmp_path / "one.tgz")
    pack(CHART, "1.2.3", tmp_path / "two.tgz")

    assert (tmp_path / "one.tgz").read_bytes() == (tmp_path / "two.tgz").read_bytes()
