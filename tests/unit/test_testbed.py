"""The parts of the testbed that need no testbed."""

import hashlib
import io
import json
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.__main__ import parser
from e2e.cluster.apiserver import free_ports
from e2e.cluster.build import artefact
from e2e.cluster.console import describe_left
from e2e.cluster.debian import MissingProgramError, ensure_programs
from e2e.cluster.disks import Disk, format_size, parse_size, storage_classes
from e2e.cluster.images import Image
from e2e.cluster.layout import Layout, LayoutError, zone_of
from e2e.cluster.limits import inotify_shortage
from e2e.cluster.paths import remove_orphans
from e2e.cluster.procs import identify, spawn
from e2e.cluster.state import Options, State
from e2e.cluster.system import CommandError, run
from e2e.cluster.target import ForeignCluster, Unsupported, foreign_kubeconfig
from e2e.cluster.template import ensure_template, most_alike
from e2e.cluster.testbed import ready_nodes
from e2e.cluster.waiting import OverdueError, wait_for

NODE = Layout.named("unit").node(2)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("1k", 1000),
        ("1Ki", 1024),
        ("320Mi", 320 << 20),
        ("100Gi", 100 << 30),
        ("2T", 2 * 10**12),
    ],
)
def test_sizes_are_read_as_kubernetes_reads_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "1.5Gi", "-1", "1 Gi", "10GiB", "1kk"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(100 << 30, "100Gi"), (320 << 20, "320Mi"), (1 << 40, "1Ti"), (1000, "1000")]
)
def test_sizes_are_written_in_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert format_size(size) == text
    assert parse_size(text) == size


def test_zones_are_given_in_turn() -> None:
    assert [zone_of(index, 3) for index in range(1, 6)] == ["zone-a", "zone-b", "zone-c", "zone-a", "zone-b"]


@pytest.mark.parametrize("name", ["", "Big", "with-dash", "muchtoolongname", "1st", "../x"])
def test_names_that_no_testbed_can_have(name: str) -> None:
    with pytest.raises(LayoutError, match="at most 12"):
        Layout.named(name)


def test_two_testbeds_share_no_name() -> None:
    one, other = Layout.named("one"), Layout.named("other")
    assert one.cgroup != other.cgroup
    assert one.state != other.state
    assert one.node(1).netns != other.node(1).netns
    assert not other.node(1).netns.startswith(one.netns_prefix)


def test_a_disk_swapped_in_place_keeps_its_volume_but_is_another_image() -> None:
    disk = Disk.first(NODE, "disk0", 1 << 30, "xfs")
    new = disk.successor(NODE, own_volume=False)
    assert (new.volume, new.mount) == (disk.volume, disk.mount) == ("node2-disk0", "/mnt/disks/disk0")
    assert new.image != disk.image


def test_a_disk_that_is_a_new_volume_shares_nothing() -> None:
    disk = Disk.first(NODE, "disk0", 1 << 30, "xfs")
    new = disk.successor(NODE, own_volume=True)
    again = new.successor(NODE, own_volume=True)
    assert len({each.volume for each in (disk, new, again)}) == 3
    assert len({each.mount for each in (disk, new, again)}) == 3


def test_volumes_are_pinned_to_their_node_and_say_their_size() -> None:
    volume = Disk.first(NODE, "disk1", 100 << 30, "xfs").persistent_volume(NODE)
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["node2"]
    assert volume["spec"]["capacity"] == {"storage": "100Gi"}
    assert volume["spec"]["storageClassName"] == "local-disks"


def test_one_class_is_the_default_and_both_wait_for_their_pod() -> None:
    classes = storage_classes()
    assert {each["volumeBindingMode"] for each in classes} == {"WaitForFirstConsumer"}
    assert [each["metadata"]["name"] for each in classes if each["metadata"]["annotations"]] == ["standard"]


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "text"),
    [
        (0, 10, 5, "unknown"),
        (5, 10, 30, "about 30 s"),
        (10, 10, 9, "about 0 s"),
        (1, 10, 60, "about 9 min"),
        (20, 10, 9, "about 0 s"),
    ],
)
def test_time_left(done: int, total: int, elapsed: float, text: str) -> None:
    assert text in describe_left(done, total, elapsed)


def test_ready_nodes_are_told_with_the_boot_that_reported_it() -> None:
    def node(name: str, ready: str) -> dict[str, object]:
        status = {
            "nodeInfo": {"bootID": f"boot of {name}"},
            "conditions": [{"type": "Ready", "status": ready}],
        }
        return {"metadata": {"name": name}, "status": status}

    young = {"metadata": {"name": "young"}, "status": {}}
    nodes = [node("well", "True"), node("gone", "Unknown"), young]
    assert ready_nodes({"items": nodes}) == {"well": "boot of well"}


def make_image(folder: Path) -> Image:
    blobs = [b"configuration", b"lower layer", b"upper layer"]
    names = [hashlib.sha256(blob).hexdigest() for blob in blobs]
    for name, blob in zip(names, blobs, strict=True):
        (folder / name).write_bytes(blob)
    descriptors = [{"digest": f"sha256:{name}"} for name in names]
    (folder / "manifest.json").write_text(json.dumps({"config": descriptors[0], "layers": descriptors[1:]}))
    return Image("localhost/some/image:1", folder)


def test_an_archive_names_the_image_and_leaves_out_what_is_known(tmp_path: Path) -> None:
    image = make_image(tmp_path)
    _, lower, upper = image.blobs()
    target = io.BytesIO()
    image.write_archive(target, without={lower})
    with tarfile.open(fileobj=io.BytesIO(target.getvalue())) as archive:
        names = archive.getnames()
        index = json.load(archive.extractfile("index.json") or io.BytesIO())
    assert f"blobs/sha256/{upper}" in names
    assert f"blobs/sha256/{lower}" not in names
    (manifest,) = index["manifests"]
    assert manifest["annotations"] == {"io.containerd.image.name": "localhost/some/image:1"}
    assert f"blobs/{manifest['digest'].replace(':', '/')}" in names


def test_an_artefact_is_made_once_and_never_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[Path] = []

    def broken(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("interrupted")

    def whole(folder: Path) -> None:
        made.append(folder)
        (folder / "thing").touch()

    with pytest.raises(OSError, match="interrupted"):
        artefact("thing", "1", "0123456789abcdef", broken)
    first = artefact("thing", "1", "0123456789abcdef", whole)
    assert [path.name for path in first.iterdir()] == ["thing"]
    assert artefact("thing", "1", "0123456789abcdef", whole) == first
    assert artefact("thing", "1", "another key here", whole) != first
    assert len(made) == 2


def test_a_process_is_told_from_a_later_one_with_its_pid(tmp_path: Path) -> None:
    process = spawn(["sleep", "60"], tmp_path / "log", dies_with_us=True)
    assert process.alive()
    assert identify(process.pid) == process
    assert not type(process)(process.pid, process.started + 1).alive()
    process.stop()
    assert not process.alive()
    process.stop()  # nothing to do


def test_a_process_that_will_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = spawn(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 60; done"], tmp_path / "log")
    wait_for("the trap", lambda: "up" in (tmp_path / "log").read_text(), seconds=5, every=0.01)
    children = stubborn.children()
    stubborn.stop(grace=0.1)
    assert not stubborn.alive()
    for child in children:
        child.signal(signal.SIGKILL)


def test_waiting_says_what_was_not_to_be_had() -> None:
    answers = iter([None, "", "there"])
    assert wait_for("it", lambda: next(answers), seconds=5, every=0) == "there"
    with pytest.raises(OverdueError, match=r"the moon: not within 0 s. it is day"):
        wait_for("the moon", lambda: False, seconds=0, detail=lambda: "it is day")


def test_commands_fail_loudly_and_in_time() -> None:
    assert run("cat", stdin="word") == "word"
    with pytest.raises(CommandError, match="sorry"):
        run("sh", "-c", "echo sorry >&2; exit 3")
    with pytest.raises(CommandError, match="not done after"):
        run("sleep", "60", seconds=0.1)


def test_state_survives_writing_and_nonsense_is_no_state(tmp_path: Path) -> None:
    state = State(Options(nodes=2), 1234, "/somewhere", complete=True)
    state.save(tmp_path / "state.json")
    assert State.load(tmp_path / "state.json") == state
    (tmp_path / "state.json").write_text('{"options": {"nodes": 2}')
    assert State.load(tmp_path / "state.json") is None
    assert State.load(tmp_path / "missing") is None


def test_faults_on_a_foreign_cluster_say_that_they_need_the_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/config")
    found = foreign_kubeconfig()
    assert found == Path("/home/somebody/config")
    with pytest.raises(Unsupported, match="disk_fail needs the testbed"):
        ForeignCluster(found).disk_fail(1, 0)
    with pytest.raises(AttributeError):
        _ = ForeignCluster(found).misspelt


@pytest.mark.parametrize("named", [None, "", str(Layout.named("spindle").kubeconfig)])
def test_a_testbeds_own_kubeconfig_is_no_foreign_cluster(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if named is not None:
        monkeypatch.setenv("KUBECONFIG", named)
    assert foreign_kubeconfig() is None


def test_what_no_package_brings_is_asked_for_with_what_to_know_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("e2e.cluster.debian._PATH", str(tmp_path))
    with pytest.raises(MissingProgramError, match=r"install kube-router \(2\.9 or later.*on the PATH"):
        ensure_programs("kube-router", "ipset")


def test_free_ports_differ() -> None:
    assert len(set(free_ports(5))) == 5


@pytest.mark.parametrize(
    "line",
    [
        "up --nodes 3 --disk-size 1Gi",
        "node off 2",
        "disk slow 1 0 --milliseconds 50",
        "disk swap 1 disk2 --new-volume",
        "partition 1 2 --one-way",
        "kubectl get nodes -o wide",
        "network-policies on",
    ],
)
def test_command_lines_that_must_parse(line: str) -> None:
    assert parser().parse_args(line.split()).command == line.split(maxsplit=1)[0]


class TestWanted:
    """The list of what the image installs, from the lock."""

    LOCK = """alpha==1.0 \\
    --hash=sha256:aa
    # via spindle-kafka (pyproject.toml)
beta-gamma==2.0 \\
    --hash=sha256:bb
    # via
    #   alpha
    #   tool
tool==3.0 \\
    --hash=sha256:cc
    # via spindle-kafka (pyproject.toml)
"""
    PYPROJECT = """[build-system]
requires = ["tool==3.0"]
[project]
dependencies = []
[project.optional-dependencies]
operator = ["Alpha[extra]>=1"]
dev = ["tool"]
"""

    @pytest.fixture
    def files(self, tmp_path: Path) -> list[str]:
        (tmp_path / "pyproject.toml").write_text(self.PYPROJECT)
        (tmp_path / "requirements.lock").write_text(self.LOCK)
        return [str(tmp_path / "pyproject.toml"), str(tmp_path / "requirements.lock")]

    def wanted(self, *arguments: str) -> list[str]:
        program = Path(__file__).parents[2] / "operator" / "locked_requirements.py"
        done = subprocess.run(["python3", program, *arguments], capture_output=True, text=True, check=True)
        return [line.split("==")[0] for line in done.stdout.splitlines() if "==" in line]

    def test_what_an_extra_needs_and_what_that_needs(self, files: list[str]) -> None:
        assert self.wanted(*files, "operator") == ["alpha", "beta-gamma"]

    def test_what_the_build_needs(self, files: list[str]) -> None:
        assert self.wanted(*files, "--build") == ["beta-gamma", "tool"]

    def test_a_lock_that_lacks_something_is_refused(self, files: list[str]) -> None:
        Path(files[1]).write_text("")
        with pytest.raises(subprocess.CalledProcessError):
            self.wanted(*files, "operator")


def test_folders_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    for name in (f"scratch-{done.pid}-a", f"scratch-{os.getpid()}-b", "scratch-other", f"else-{done.pid}-a"):
        (tmp_path / name).mkdir()
    remove_orphans(tmp_path, "scratch-")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([f"scratch-{os.getpid()}-b", "scratch-other", f"else-{done.pid}-a"])


def test_too_many_nodes_for_the_kernels_limits_are_refused_with_the_way_out() -> None:
    assert "sysctl fs.inotify.max_user_instances=" in inotify_shortage(10**6)
    assert inotify_shortage(-(10**6)) == ""


def test_a_template_is_made_from_the_one_that_has_most_of_its_images() -> None:
    bare, older, other = Path("bare"), Path("older"), Path("other")
    there = {
        bare: ["pause-1", "kafka-1", "spindle-1"],
        older: ["pause-1", "kafka-1", "spindle-1", "job-1"],
        other: ["pause-1", "kafka-0", "spindle-2", "job-1"],
    }

    assert most_alike(["pause-1", "kafka-1", "spindle-2", "job-1"], there) == older
    assert most_alike(["pause-1", "kafka-1", "spindle-1"], {bare: there[bare], other: there[other]}) == bare
    assert most_alike(["pause-2", "kafka-1", "spindle-1"], there) is None
    assert most_alike(["pause-1", "kafka-1"], {}) is None


def test_a_template_that_has_more_images_than_needed_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = ["pause-1", "kafka-1", "spindle-1", "job-1"]
    older = tmp_path / "spindle" / "template-4-older"
    (older / "root").mkdir(parents=True)
    (older / "contents.json").write_text(json.dumps({"images": names, "blobs": []}))
    images = [Image(name, tmp_path / name) for name in names[:3]]
    for image in images:
        image.folder.mkdir()
        (image.folder / "manifest.json").write_text(
            json.dumps({"config": {"digest": "sha256:0"}, "layers": []})
        )

    assert ensure_template(images) == older / "root"  # another one would need a containerd
