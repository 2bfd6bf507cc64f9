"""Documents of what images are made of, from images that are made here: layers, whiteouts, packages, jars."""

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools.sbom.__main__ import document, main
from tools.sbom.layers import ImageError

SITE = "opt/venv/lib/python3.11/site-packages"
DPKG = """Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc (2.36)
Version: 2.36-9
Description: first
 Package: not-one

Package: gone
Status: deinstall ok config-files
Version: 1
Architecture: all
"""


def jar(files: Mapping[str, str | bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        for name, body in files.items():
            made.writestr(zipfile.ZipInfo(name), body)
    return target.getvalue()


def pom(group: str, artifact: str, version: str) -> dict[str, str | bytes]:
    text = f"#made\ngroupId={group}\nartifactId={artifact}\nversion={version}\n"
    return {f"META-INF/maven/{group}/{artifact}/pom.properties": text}


SHADED = jar(
    pom("org.other", "inner", "0.3") | pom("org.outer", "outer", "2.0") | {"lib/deep-1.1.jar": jar({})}
)
LOWER: dict[str, str | bytes] = {
    "usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status": DPKG,
    f"{SITE}/Old_Name-1.0.dist-info/METADATA": "Name: Old_Name\nVersion: 1.0\n",
    f"{SITE}/replaced-1.dist-info/METADATA": "Name: replaced\nVersion: 1\n",
    "gone/away-1.0.jar": jar(pom("org.away", "away", "1.0")),
    "emptied/away-1.0.jar": jar(pom("org.away", "away", "1.0")),
}
UPPER: dict[str, str | bytes] = {
    ".wh.gone": "",
    "emptied/.wh..wh..opq": "",
    f"{SITE}/.wh.replaced-1.dist-info": "",
    f"{SITE}/replaced-2.dist-info/METADATA": "Name: replaced\nVersion: 2\n",
    f"{SITE}/replaced-2.dist-info/RECORD": "replaced.py,sha256=x,1\n",
    "opt/libs/outer-2.0.jar": SHADED,
    "opt/libs/kafka-server-4.3.1.jar": jar({"org/apache/kafka/A.class": "", "kafka/B.class": ""}),
    "opt/libs/unknown-1.2-beta.jar": jar({"com/x/A.class": ""}),
    "opt/libs/broken.jar": b"no jar",
    "usr/lib/jvm/java-17/release": 'JAVA_VERSION="17.0.19"\n',
    "etc/release": "neither Java nor anything else\n",
}


def layer(files: Mapping[str, str | bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as made:
        for name, body in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            raw = body.encode() if isinstance(body, str) else body
            entry.size = len(raw)
            made.addfile(entry, io.BytesIO(raw))
    return target.getvalue()


def config(environment: tuple[str, ...] = ()) -> bytes:
    told = {"created": "2026-01-02T03:04:05.123456789Z", "config": {"Env": list(environment)}}
    return json.dumps(told).encode()


def image(folder: Path, *layers: Mapping[str, str | bytes], environment: tuple[str, ...] = ()) -> Path:
    """As the images that are built here are kept: blobs by their hash, and the manifest."""
    folder.mkdir()

    def put(body: bytes) -> dict[str, str]:
        digest = hashlib.sha256(body).hexdigest()
        (folder / digest).write_bytes(body)
        return {"digest": f"sha256:{digest}"}

    manifest = {"config": put(config(environment)), "layers": [put(layer(each)) for each in layers]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def saved(path: Path, *layers: Mapping[str, str | bytes]) -> Path:
    """As ``docker save`` writes it."""
    files: dict[str, str | bytes] = {f"{n}/layer.tar": layer(each) for n, each in enumerate(layers)}
    manifest = [{"Config": "config.json", "Layers": list(files)}]
    with tarfile.open(path, "w") as made:
        for name, body in {**files, "config.json": config(), "manifest.json": json.dumps(manifest)}.items():
            raw = body.encode() if isinstance(body, str) else body
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            made.addfile(entry, io.BytesIO(raw))
    return path


def components(text: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(text)["components"]}


@pytest.fixture
def found(tmp_path: Path) -> dict[str, dict[str, Any]]:
    return components(document(image(tmp_path / "i", LOWER, UPPER), "spindle", "dev"))


def test_everything_that_is_in_the_image_and_nothing_else(found: dict[str, dict[str, Any]]) -> None:
    assert {name: each.get("version") for name, each in found.items()} == {
        "debian": "12",
        "libc6": "2.36-9",
        "Old_Name": "1.0",
        "replaced": "2",
        "outer": "2.0",
        "kafka-server": "4.3.1",
        "kafka": "4.3.1",
        "unknown": "1.2-beta",
        "broken": None,
        "openjdk": "17.0.19",
    }


def test_each_has_the_name_that_others_know_it_by(found: dict[str, dict[str, Any]]) -> None:
    assert found["libc6"]["purl"] == "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12&upstream=glibc"
    assert found["Old_Name"]["purl"] == "pkg:pypi/old-name@1.0"
    assert found["outer"]["purl"] == "pkg:maven/org.outer/outer@2.0"
    assert found["kafka-server"]["purl"] == "pkg:maven/org.apache.kafka/kafka-server@4.3.1"
    # A group that nothing tells is not made up.
    assert "purl" not in found["unknown"]


def test_a_jar_has_its_hash_and_what_is_in_it(found: dict[str, dict[str, Any]]) -> None:
    outer = found["outer"]
    assert {"alg": "SHA-256", "content": hashlib.sha256(SHADED).hexdigest()} in outer["hashes"]
    assert {(each["name"], each["version"]) for each in outer["components"]} == {
        ("deep", "1.1"),
        ("inner", "0.3"),
    }
    assert outer["evidence"]["occurrences"] == [{"location": "/opt/libs/outer-2.0.jar"}]


def test_a_python_package_has_the_hash_of_the_list_of_its_files(found: dict[str, dict[str, Any]]) -> None:
    record = hashlib.sha256(b"replaced.py,sha256=x,1\n").hexdigest()
    assert found["replaced"]["properties"] == [{"name": "spindle:python:record-sha256", "value": record}]


def test_the_same_image_gives_the_same_document(tmp_path: Path) -> None:
    once, again = (document(image(tmp_path / name, LOWER, UPPER), "spindle", "dev") for name in "ab")
    assert once == again
    told = json.loads(once)
    assert told["metadata"]["timestamp"].startswith("2026-01-02T03:04:05")
    other = json.loads(document(image(tmp_path / "c", LOWER), "spindle", "dev"))
    assert other["serialNumber"] != told["serialNumber"]


def test_an_archive_says_the_same_as_the_folder(tmp_path: Path) -> None:
    of_folder = components(document(image(tmp_path / "i", LOWER, UPPER), "spindle", "dev"))
    of_archive = components(document(saved(tmp_path / "i.tar", LOWER, UPPER), "spindle", "dev"))
    assert of_archive == of_folder


def test_a_python_that_came_without_a_package(tmp_path: Path) -> None:
    made = image(tmp_path / "i", LOWER, environment=("PATH=/bin", "PYTHON_VERSION=3.11.9"))
    assert components(document(made, "spindle", "dev"))["python"]["version"] == "3.11.9"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        pytest.param(
            {"lib/apk/db/installed": "P:musl\n", **UPPER}, "only Debian packages are", id="other packages"
        ),
        pytest.param({"pause": "x"}, "no packages and no jars", id="nothing"),
    ],
)
def test_what_cannot_be_read_is_not_told_as_empty(
    tmp_path: Path, files: dict[str, str | bytes], why: str
) -> None:
    with pytest.raises(ImageError, match=why):
        document(image(tmp_path / "i", files), "x", "1")


def test_a_file_that_is_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.tar").write_bytes(b"no archive")
    assert main([str(tmp_path / "x.tar"), "--out", str(tmp_path / "out")]) == 1
    assert "not a readable image" in capsys.readouterr().err


def test_an_archive_is_written_by_its_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "i.tar", LOWER)
    assert main([str(path), "--name", "localhost/spindle:1.0", "--out", str(tmp_path / "out")]) == 0
    told = json.loads((tmp_path / "out" / "spindle.cdx.json").read_text())
    assert told["metadata"]["component"]["name"] == "spindle"
    assert told["metadata"]["component"]["version"] == "1.0"
    assert told["specVersion"] == "1.6"
