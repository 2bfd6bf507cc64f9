"""A whole release, made twice; and its images for both architectures, started."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from e2e.cluster.build import ensure_helm, ensure_qemu, ensure_release_tools
from tools.images.definition import ARCHITECTURES, USER, VENV
from tools.release.__main__ import IMAGES, SUMS, make

VERSION = "0.0.1-rc.1"
ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".venv/bin/uv"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / VERSION
    make(VERSION, out, tmp_path_factory.mktemp("first"))
    return out


def test_made_in_another_folder_it_is_the_same(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "elsewhere" / VERSION
    make(VERSION, again, tmp_path / "work")

    assert (again / SUMS).read_text() == (made / SUMS).read_text()


def test_the_check_sums_are_those_of_all_files(made: Path) -> None:
    lines = (line.partition("  ") for line in (made / SUMS).read_text().splitlines())
    listed = {name: digest for digest, _, name in lines}

    assert listed.keys() == {path.name for path in made.iterdir()} - {SUMS}
    for name, wanted in listed.items():
        with (made / name).open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == wanted


def test_the_list_of_images_names_what_the_layouts_have(made: Path) -> None:
    for line in (made / IMAGES).read_text().splitlines():
        name, _, digest = line.partition("@")
        if digest:
            with tarfile.open(made / f"{name.replace(':', '-')}.oci.tar") as layout:
                (top,) = json.loads(read(layout, "index.json"))["manifests"]
            assert top["digest"] == digest


def test_helm_accepts_the_chart(made: Path) -> None:
    subprocess.run([ensure_helm(), "lint", "--strict", made / f"spindle-{VERSION}.tgz"], check=True)


def test_the_examples_are_those_of_the_commit(made: Path) -> None:
    with tarfile.open(made / f"examples-{VERSION}.tar.gz") as archive:
        found = {each.name: read(archive, each.name) for each in archive.getmembers()}

    assert found["examples/quickstart.yaml"] == (ROOT / "examples/quickstart.yaml").read_bytes()
    assert "examples/flux/kustomization.yaml" in found


def test_the_package_installs_the_command_and_the_plugin(made: Path, tmp_path: Path) -> None:
    (wheel,) = made.glob("spindle_kafka-*-py3-none-any.whl")
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = next(venv.glob("bin/python"))
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, f"{wheel}[cli]"], check=True)
    for name in ("spindle", "kubectl-spindle"):
        command = [str(venv / "bin" / name), "explain", "StoppedBrokerNeeded"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "spindle broker start" in done.stdout


def test_a_bill_of_materials_has_the_release_itself(made: Path) -> None:
    for architecture in ARCHITECTURES:
        told = json.loads((made / f"spindle-{VERSION}-{architecture}.cdx.json").read_text())
        versions = {each["name"]: each["version"] for each in told["components"]}
        assert versions["spindle-kafka"] == "0.0.1rc1"  # as Python writes it
        assert {"libc6", "python3.11", "pyarrow"} <= versions.keys()


def read(layout: tarfile.TarFile, name: str) -> bytes:
    member = layout.extractfile(name)
    assert member is not None, name
    return member.read()


def unpacked(archive: Path, architecture: str, folder: Path) -> Path:
    """The files of an image."""
    with tarfile.open(archive) as layout:
        (top,) = json.loads(read(layout, "index.json"))["manifests"]
        index = json.loads(read(layout, f"blobs/{top['digest'].replace(':', '/')}"))
        (manifest,) = (
            each for each in index["manifests"] if each["platform"]["architecture"] == architecture
        )
        for layer in json.loads(read(layout, f"blobs/{manifest['digest'].replace(':', '/')}"))["layers"]:
            with tarfile.open(
                fileobj=BytesIO(read(layout, f"blobs/{layer['digest'].replace(':', '/')}"))
            ) as files:
                files.extractall(folder, filter="fully_trusted")  # noqa: S202 - made here
    return folder


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("image", "scripts"),
    [
        ("spindle", ("spindle-operator --help", "spindle-agent --help", "spindle --help")),
        ("spindle-rebalance", ("spindle-rebalance --help",)),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="changes the root folder")
def test_the_programs_of_an_image_start(
    made: Path, tmp_path: Path, image: str, scripts: tuple[str, ...], architecture: str
) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    folder.chmod(0o755)  # it becomes the folder "/" of another user
    root = unpacked(made / f"{image}-{VERSION}.oci.tar", architecture, folder)
    emulator: list[str] = []
    if ARCHITECTURES[architecture] != os.uname().machine:
        (root / "emulator").write_bytes(ensure_qemu(ARCHITECTURES[architecture]).read_bytes())
        (root / "emulator").chmod(0o755)
        emulator = ["/emulator", "-0", f"/{VENV}/bin/python"]
    python = [*emulator, "/usr/bin/python3.11"] if emulator else [f"/{VENV}/bin/python"]
    for script in scripts:
        name, option = script.split()
        command = ["chroot", f"--userspec={USER}:{USER}", str(root), *python, f"/{VENV}/bin/{name}", option]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"}
        )
        assert done.returncode == 0, done.stderr
        assert "usage" in done.stdout.lower()
    if image == "spindle-rebalance":
        (java,) = (root / "usr/lib/jvm").glob("java-17-openjdk-*/bin/java")
        command = ["chroot", str(root), *emulator[:1], f"/{java.relative_to(root)}", "-Xint", "-version"]
        # It finds its libraries by /proc/self/exe, and there is no /proc here.
        libraries = {
            "PATH": "/usr/sbin:/usr/bin",
            "LD_LIBRARY_PATH": f"/{java.parents[1].relative_to(root)}/lib",
        }
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=libraries)
        assert done.returncode == 0, done.stderr
        assert "OpenJDK" in done.stderr


def test_actionlint_accepts_the_workflows() -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    assert workflows
    done = subprocess.run(
        [ensure_release_tools() / "actionlint", *workflows], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
