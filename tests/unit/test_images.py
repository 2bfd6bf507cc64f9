"""How the images of a release are assembled: layers, locked packages, certificates, and the OCI layout."""

import contextlib
import gzip
import hashlib
import json
import os
import struct
import subprocess
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.build import BuildError
from tools.images import debian, definition
from tools.images.certificates import java_store
from tools.images.debian import LOCK, LockError, Package, closure, packages_of, read
from tools.images.definition import ARCHITECTURES, BASE, DEFINITIONS, REBALANCE
from tools.images.dockerfile import dockerfile
from tools.images.image import Builder, Fresh
from tools.images.layers import compress, digest_of, link_copies, write_layer
from tools.release import __main__ as release
from tools.release.__main__ import ReleaseError, checked
from tools.release.oci import write_layout


def files(folder: Path, time: int) -> Path:
    """A folder whose files were written at some time, by somebody with a strict umask."""
    for name, mode in (("usr/bin/tool", 0o700), ("etc/b", 0o600), ("etc/a", 0o640), ("tmp/none", 0o600)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
        os.utime(path, (time, time))
    (folder / "bin").symlink_to("usr/bin")
    return folder


def test_a_layer_depends_on_contents_alone(tmp_path: Path) -> None:
    one = write_layer(files(tmp_path / "one", 1_000_000_000), tmp_path / "one.tar")
    two = write_layer(files(tmp_path / "two", 1_700_000_000), tmp_path / "two.tar")

    assert one == two == hashlib.sha256((tmp_path / "one.tar").read_bytes()).hexdigest()
    with tarfile.open(tmp_path / "one.tar") as layer:
        found = {entry.name: entry for entry in layer}
    assert list(found) == [
        "bin",
        "etc",
        "etc/a",
        "etc/b",
        "tmp",
        "tmp/none",
        "usr",
        "usr/bin",
        "usr/bin/tool",
    ]
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in found.values()} == {(0, 0, "", "")}
    modes = {name: oct(entry.mode) for name, entry in found.items() if not entry.issym()}
    assert modes["usr/bin/tool"] == modes["usr"] == "0o755"
    assert (modes["etc/a"], modes["tmp"]) == ("0o644", "0o1777")


def test_a_compressed_layer_has_no_time_and_no_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    (tmp_path / "b").write_bytes(b"x" * 100)
    for name in ("a", "b"):
        compress(tmp_path / name, tmp_path / f"{name}.gz")

    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"x" * 100


def test_copies_of_a_library_become_links(tmp_path: Path) -> None:
    large = b"x" * (1 << 18)
    for name in ("lib.so", "lib.so.26", "lib.so.26.1", "other/lib.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(large)
    (tmp_path / "small").write_bytes(b"y")
    (tmp_path / "same").write_bytes(b"y")

    link_copies(tmp_path)

    links = {path.name: str(path.readlink()) for path in tmp_path.iterdir() if path.is_symlink()}
    assert links == {"lib.so": "lib.so.26.1", "lib.so.26": "lib.so.26.1"}
    assert not (tmp_path / "other/lib.so").is_symlink()


ABOUT = {
    "python": "libc (>= 2.36), python-lib (= 1:3) | other, media | mime",
    "python-lib": "libc",
    "libc": ",",
    "media": "",
    "tool": "nowhere | neither",
}


def test_a_package_comes_with_what_it_depends_on() -> None:
    assert closure(["python"], ABOUT, ()) == {"python", "python-lib", "libc", "media"}
    assert closure(["python"], ABOUT, ("python-lib", "media")) == {"python", "libc"}
    with pytest.raises(LockError, match="tool needs nowhere"):
        closure(["tool"], ABOUT, ())
    with pytest.raises(LockError, match="no package gone"):
        closure(["gone"], ABOUT, ())


def test_the_lock_file_has_all_packages_of_all_images() -> None:
    for architecture in ARCHITECTURES:
        for image in (BASE, *DEFINITIONS):
            packages = packages_of(image, architecture)
            assert all(len(each.sha256) == 64 for each in packages)
    locked = read(LOCK.read_text())
    assert {each.name for each in locked if each.architecture == "amd64"} == {
        each.name for each in locked if each.architecture == "arm64"
    }
    assert not {each.name for each in locked} & {*definition.LEFT_OUT}


def test_a_line_of_the_lock_file_that_is_not_understood_is_named() -> None:
    with pytest.raises(LockError, match="'spindle amd64 libc6'"):
        read("# a comment\nspindle amd64 libc6\n")


def deb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> tuple[Path, Path]:
    """A file that dpkg-deb takes for a package of this version, and the cache."""
    monkeypatch.setattr(debian, "_dpkg", lambda *_: version.encode())
    (tmp_path / "store").mkdir()
    (tmp_path / "a.deb").write_bytes(b"content")
    return tmp_path / "a.deb", tmp_path / "store"


def test_a_package_with_another_check_sum_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, store = deb(monkeypatch, tmp_path, "1.0")
    for exact in (True, False):
        with pytest.raises(LockError, match=r"a 1\.0 has the SHA-256 ed7002b4"):
            debian._keep(Package("base", "amd64", "a", "1.0", "0" * 64), file, store, exact=exact)
    assert list(store.iterdir()) == []


def test_only_the_testbed_takes_a_newer_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, store = deb(monkeypatch, tmp_path, "1.1")
    package = Package("base", "amd64", "a", "1.0", "0" * 64)
    with pytest.raises(LockError, match=r"a 1\.1 has"):
        debian._keep(package, file, store, exact=True)

    debian._keep(package, file, store, exact=False)

    assert (store / f"instead-of-{'0' * 64}").read_bytes() == b"content"


def test_a_release_fetches_a_package_again_whose_file_in_the_cache_is_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = Package("base", "amd64", "a", "1.0", hashlib.sha256(b"content").hexdigest())
    fetched: list[Package] = []

    def fetch(packages: Any, store: Path, *, exact: bool) -> None:
        assert exact
        fetched.extend(packages)
        (store / package.sha256).write_bytes(b"content")

    monkeypatch.setattr(debian, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(debian, "_fetch", fetch)
    monkeypatch.setattr(debian, "locked", lambda _: contextlib.nullcontext())
    (tmp_path / "debs").mkdir()
    (tmp_path / "debs" / package.sha256).write_bytes(b"cont")

    for _ in range(2):
        (found,) = debian.fetch([package], exact=True)
        assert found.read_bytes() == b"content"
    assert fetched == [package]


def test_paths_are_those_below_usr() -> None:
    assert debian._merged("./bin/bash") == "usr/bin/bash"
    assert debian._merged("./lib64/ld.so") == "usr/lib64/ld.so"
    assert debian._merged("./etc/bin/x") == "etc/bin/x"
    assert debian._merged("./") == ""


def test_javas_store_names_each_certificate_and_ends_with_its_check_sum() -> None:
    store = java_store({"B": b"two", "a": b"one"})

    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 2)
    assert store.index(b"one") > store.index(b"two") > 0
    check = hashlib.sha1(
        "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20], usedforsecurity=False
    ).digest()
    assert store[-20:] == check
    assert store == java_store({"a": b"one", "B": b"two"})


class _Assembled:
    """Stands in for `tools.images.assemble`: layers of one small file."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def fill(*arguments: Any, **_: Any) -> None:
            folder = next(each for each in arguments if isinstance(each, Path) and each.is_dir())
            (folder / name).write_text(name)
            self.made.append(name)

        return fill

    def host_architecture(self) -> str:
        return "amd64"

    def compile_all(self, *_: Any) -> None:
        pass

    def requirements(self, *_: Any) -> str:
        return "wanted"


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> _Assembled:
    fake = _Assembled()
    monkeypatch.setattr("tools.images.image.assemble", fake)
    return fake


def build(folder: Path, architecture: str = "amd64", **options: Any) -> Path:
    target = folder / f"image-{architecture}"
    target.mkdir(parents=True)
    Builder(store=Fresh(folder / "store"), **options).build(REBALANCE, architecture, target)
    return target


def test_an_image_is_what_its_manifest_says(assembled: _Assembled, tmp_path: Path) -> None:
    folder = build(tmp_path, version="1.2.3", packed=True, created=datetime(2026, 1, 2, tzinfo=UTC))

    manifest = json.loads((folder / "manifest.json").read_text())
    for blob in (manifest["config"], *manifest["layers"]):
        path = folder / blob["digest"].removeprefix("sha256:")
        assert (digest_of(path), path.stat().st_size) == (path.name, blob["size"])
    config = json.loads((folder / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
    packed = [folder / each["digest"].removeprefix("sha256:") for each in manifest["layers"]]
    plain = [hashlib.sha256(gzip.decompress(each.read_bytes())).hexdigest() for each in packed]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{each}" for each in plain]
    assert (config["architecture"], config["created"]) == ("amd64", "2026-01-02T00:00:00Z")
    assert config["config"]["User"] == "1000:1000"
    assert config["config"]["Entrypoint"] == ["spindle-rebalance"]
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == "1.2.3"
    assert assembled.made == ["base", "additional", "wheels", "code"]


def test_made_twice_it_is_the_same(assembled: _Assembled, tmp_path: Path) -> None:
    one, two = build(tmp_path / "one"), build(tmp_path / "two")

    assert (one / "manifest.json").read_bytes() == (two / "manifest.json").read_bytes()
    assert len(assembled.made) == 8


def test_a_layout_has_all_architectures_under_one_digest(assembled: _Assembled, tmp_path: Path) -> None:
    images = {name: build(tmp_path, name) for name in ("arm64", "amd64")}

    digest = write_layout(images, "1.2.3", tmp_path / "layout.tar")

    with tarfile.open(tmp_path / "layout.tar") as archive:
        found = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    (top,) = json.loads(found["index.json"])["manifests"]
    assert (top["digest"], top["annotations"]) == (digest, {"org.opencontainers.image.ref.name": "1.2.3"})
    index = json.loads(found[f"blobs/sha256/{digest.removeprefix('sha256:')}"])
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    for name, body in found.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(body).hexdigest() == name.removeprefix("blobs/sha256/")
    for each in index["manifests"]:
        manifest = json.loads(found[f"blobs/sha256/{each['digest'].removeprefix('sha256:')}"])
        wanted = {blob["digest"] for blob in (manifest["config"], *manifest["layers"])}
        assert wanted <= {name.replace("blobs/sha256/", "sha256:") for name in found}


def test_a_dockerfile_says_what_the_definition_says() -> None:
    text = dockerfile(REBALANCE, "rebalance")

    assert 'ENTRYPOINT ["spindle-rebalance"]\nCMD ["--help"]\n' in text
    for each in REBALANCE.environment:
        assert each in text
    assert "tools.images spindle-rebalance /files" in text


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit, of somebody whose git signs, converts line ends, and is strict about modes."""
    folder = tmp_path / "checkout"
    (folder / "charts/spindle").mkdir(parents=True)
    (folder / "charts/spindle/Chart.yaml").write_text("name: spindle\nversion: 0\nappVersion: 0\n")
    git = ("git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org")
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *command], check=True)
    for setting in (("core.autocrlf", "true"), ("tar.umask", "0077"), ("log.showSignature", "true")):
        subprocess.run([*git, "config", *setting], check=True)
    return folder


class _Nothing:
    """Builds images without contents."""

    fails = False

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def build(self, *_: Any) -> None:
        if self.fails:
            raise BuildError("no network")


def test_a_release_that_fails_leaves_the_former_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkout: Path
) -> None:
    monkeypatch.setattr(release, "Builder", _Nothing)
    monkeypatch.setattr(release, "document", lambda *_: "{}")
    monkeypatch.setattr(release, "wheel", lambda *_, to: (to / "package.whl").touch())
    monkeypatch.setattr(release, "write_layout", lambda *_: "sha256:0")
    out = tmp_path / "dist" / "1.2.3"
    release.make("1.2.3", out, tmp_path / "first", checkout)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {"SHA256SUMS", "images.txt", "spindle-1.2.3.tgz"} < first.keys()

    monkeypatch.setattr(_Nothing, "fails", True)
    with pytest.raises(BuildError):
        release.make("1.2.3", out, tmp_path / "second", checkout)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first

    monkeypatch.setattr(_Nothing, "fails", False)
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_: None)  # another process has just put its files there
        with pytest.raises(ReleaseError, match="one release of a version at a time"):
            release.make("1.2.3", out, tmp_path / "beside", checkout)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first

    (out / "left-over").touch()
    release.make("1.2.3", out, tmp_path / "third", checkout)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    with tarfile.open(out / "spindle-1.2.3.tgz") as chart:
        body = chart.extractfile("spindle/Chart.yaml")
        assert body is not None
        assert b"\r" not in body.read()


@pytest.mark.parametrize(
    "version", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3+x", "1.2.3-rc1", "1.2.3\n", "../x"]
)
def test_a_version_that_tags_or_packages_cannot_have_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match="write three numbers"):
        checked(version)


def test_a_version_may_be_a_pre_release() -> None:
    assert checked("1.2.3-rc.1") == "1.2.3-rc.1"
