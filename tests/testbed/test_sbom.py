"""The documents of the images that are built here, against what other programs find in the same images."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.images import Image, ensure_kafka_image, ensure_rebalance_image, ensure_spindle_image
from tools.sbom.__main__ import document

SITE = "opt/spindle/venv/lib/python3.11/site-packages"
_HIDDEN = ".wh."


def layers(image: Image) -> list[Path]:
    return [image.folder / blob for blob in image.blobs()[1:]]


def listed(image: Image) -> set[str]:
    """Every file of every layer, by tar; none of the folders that are looked at loses one in a later layer."""
    names: set[str] = set()
    for layer in layers(image):
        told = subprocess.run(["tar", "-tf", layer], check=True, capture_output=True, text=True).stdout
        names |= {name.removeprefix("./") for name in told.splitlines()}
    assert not [name for name in names if _HIDDEN in name and name.startswith(("opt/", "var/lib/dpkg"))]
    return names


def packages(image: Image) -> set[tuple[str, str]]:
    """Debian's packages with their versions: by dpkg's own list in the uppermost layer that has one, or by one file for each package."""
    text = ""
    for layer in layers(image):
        asked = ["tar", "-xOf", str(layer), "--occurrence=1", "var/lib/dpkg/status"]
        ended = subprocess.run(asked, check=False, capture_output=True, text=True)
        text = ended.stdout if ended.returncode == 0 else text
    for layer in layers(image):
        asked = ["tar", "-xOf", str(layer), "var/lib/dpkg/status.d"]
        text += subprocess.run(asked, check=False, capture_output=True, text=True).stdout
    return set(re.findall(r"^Package: (.+)\n(?:.+\n)*?Version: (.+)$", text, re.MULTILINE))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("ensure", "programs"),
    [
        pytest.param(ensure_kafka_image, {"kafka", "openjdk"}, marks=pytest.mark.capability, id="kafka"),
        pytest.param(ensure_spindle_image, set(), marks=pytest.mark.capability, id="spindle"),
        pytest.param(ensure_rebalance_image, {"openjdk"}, id="rebalance"),
    ],
)
@pytest.mark.e2e
def test_a_document_names_what_is_in_the_image(ensure: Callable[[], Image], programs: set[str]) -> None:
    image = ensure()
    told = json.loads(document(image.folder, "image", "dev"))
    found: dict[str, list[dict[str, Any]]] = {}
    for each in told["components"]:
        found.setdefault(each["bom-ref"].partition(":")[0], []).append(each)
    assert {each["name"] for each in found.get("program", [])} == programs

    assert {(each["name"], each["version"]) for each in found["deb"]} == packages(image)

    names = listed(image)
    jars = {f"/{name}" for name in names if name.endswith(".jar")}
    where = [each["evidence"]["occurrences"][0]["location"] for each in found.get("jar", [])]
    # A jar may be a link to another; that one is named.
    assert set(where) <= jars
    assert {each for each in jars if each.startswith("/opt/")} <= set(where)

    inside = {name for name in names if re.fullmatch(rf"{SITE}/[^/]+\.dist-info/METADATA", name)}
    wanted = {tuple(name.split("/")[-2].removesuffix(".dist-info").rsplit("-", 1)) for name in inside}
    assert {(normal(each["name"]), each["version"]) for each in found.get("python", [])} == {
        (normal(name), version) for name, version in wanted
    }
