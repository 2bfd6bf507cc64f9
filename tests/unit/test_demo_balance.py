"""The demo's chapter about balance, without a cluster: which commands it runs from where, and what it draws."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka.errors import UnknownError

from e2e.cluster.layout import DISK_CLASS
from e2e.demo import balance, filler, picture
from e2e.demo.balance import Balance
from e2e.demo.demo import OPTIONS, OWN, SAMPLE
from e2e.demo.show import ROOT, DemoError, Show
from spindle.api import names, quantity
from spindle.api.cluster import KafkaCluster
from tests.unit.proposal_samples import D0, D1, HASH, move, rebalance

MOVES = (move(0, (0, D0), (3, D1), size=480_000_000), move(1, (1, D0), (1, D1), size=40_000_000))


def spec(path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / path).read_text())["spec"]
    return found


def test_its_cluster_is_the_quickstarts_but_for_what_its_head_says() -> None:
    own, sample = spec(OWN), spec(SAMPLE)
    (pool,), (other,) = own["brokerPools"], sample["brokerPools"]

    assert own.keys() - sample.keys() == {"config", "rebalance"}
    assert pool.keys() - other.keys() == {"jvm"}
    assert {k for k in other if pool[k] != other[k]} == {"disks", "replicas"}
    assert pool["disks"] | {"size": other["disks"]["size"]} == other["disks"]
    assert {k: v for k, v in own.items() if k not in ("brokerPools", "config", "rebalance")} == {
        k: v for k, v in sample.items() if k != "brokerPools"
    }


def test_its_cluster_fits_the_testbed_that_it_makes() -> None:
    (pool,) = KafkaCluster.model_validate(yaml.safe_load((ROOT / OWN).read_text())).spec.broker_pools

    assert quantity.whole(pool.disks.least_size) == OPTIONS.disk_size
    assert pool.disks.count == OPTIONS.disks
    assert pool.disks.storage_class == DISK_CLASS
    assert pool.replicas == OPTIONS.nodes


def test_a_partition_gets_the_more_the_more_replicas_it_has_on_first_dirs() -> None:
    dirs = {0: {"/b": [1, 2], "/a": [0]}, 1: {"/a": [0, 1], "/b": []}, 2: {}}

    assert filler.weights([0, 1, 2], dirs) == {0: 25, 1: 5, 2: 1}


def test_partitions_fill_side_by_side_and_what_is_there_counts() -> None:
    order = filler.plan(1, {0: 3, 1: 1}, {})

    assert len(order) == 10
    assert (order.count(0), order.count(1)) == (8, 2)
    assert 1 in order[:5]
    assert filler.plan(1, {0: 3, 1: 1}, {0: 8, 1: 1}) == [1]
    assert filler.plan(1, {0: 3, 1: 1}, {0: 9, 1: 9}) == []


def test_the_fullest_disk_stays_below_the_level_at_which_replicas_are_moved_away_by_themselves() -> None:
    """A third more than a broker's share, and five sixths of it on one disk, which no placement exceeds."""
    stored = 4 / 3 * 2 * balance.MEGABYTES * 1_000_000 / OPTIONS.nodes

    assert 5 / 6 * stored / OPTIONS.disk_size < 0.7


def told(*shares: tuple[float, ...]) -> str:
    return json.dumps(
        [
            {
                "broker": number,
                "rack": "zone-a",
                "dirs": [
                    {"path": names.log_dir(f"disk{k}"), "online": True, "capacity": 1000, "usable": 1000 * (1 - x), "bytes": 0}
                    for k, x in enumerate(disks)
                ],
            }
            for number, disks in enumerate(shares)
        ]
    )  # fmt: skip


def test_the_picture_has_both_sides_of_every_disk() -> None:
    shown = list(picture.lines(told((0.5, 0.1)), told((0.3, 0.3), (0.2, 0.0))))

    assert shown[0].split() == ["before", "after"]
    assert [line.split()[0] for line in shown[1:-2]] == ["broker", "disk0", "disk1"] * 2
    assert "█████████████▏" not in shown[2]
    assert "50%" in shown[2]
    assert "30%" in shown[2]
    assert "absent" in shown[5]
    assert shown[-1].endswith(" 0% to 30% full")
    assert "10% to 50% full" in shown[-1]
    assert len({len(line) for line in shown[1:-2]}) == 1


def test_a_broker_that_did_not_answer_leaves_a_picture_of_the_others() -> None:
    silent = json.dumps([{"broker": 0, "rack": "", "error": "it does not answer"}])

    assert list(picture.lines(silent, told((0.5,))))[1].count("absent") == 1
    assert "not known" in list(picture.lines(silent, silent))[-1]


def test_what_belongs_to_no_replica_is_told() -> None:
    dirs = [{"capacity": 100, "usable": 60, "bytes": 30}, {"capacity": None, "usable": None, "bytes": 7}]

    assert picture.unused(json.dumps([{"broker": 0, "dirs": dirs}, {"broker": 1, "error": "no"}])) == 10


class Recorder(Show):
    """Runs nothing: it answers questions from what a cluster would say, and takes a note of each command."""

    def __init__(self, *, filler: str = "", proposals: Any = (), comes: Any = None) -> None:
        super().__init__()
        self.filler, self.proposals, self.comes = filler, list(proposals), comes
        self.ran: list[str] = []
        self.fails = ""

    def run(self, *command: str, silent: str = "") -> None:
        line = " ".join(command)
        self.ran.append(line)
        if self.fails and line.startswith(self.fails):
            raise DemoError(f"`{line}` failed")
        if line.startswith("spindle rebalance run") and self.comes is not None:
            self.proposals.append(self.comes)

    def ask(self, *command: str) -> str:
        line = " ".join(command)
        if line.startswith("kubectl get kafkarebalances"):
            return json.dumps({"items": self.proposals})
        if line.startswith("kubectl get pod"):
            return self.filler
        if line == "spindle disks -o json":
            self.ran.append(line)
            return told((0.5, 0.1))
        return "<html>" if line == "spindle rebalance report" else "demo-bootstrap:9092"

    def commands(self) -> list[str]:
        return [" ".join(line.split()[:3]).partition(" -")[0] for line in self.ran]


def proposal(phase: str = "Proposed", name: str = "demo-1", **more: Any) -> dict[str, Any]:
    found = rebalance(*MOVES, name=name, status={"phase": phase, **more})
    found["spec"]["cost"] = {"moves": len(MOVES)}
    return found


CARRIED_OUT = [
    "spindle rebalance show",
    "spindle rebalance approve",
    "spindle rebalance wait",
    "spindle disks",  # until the copies that moved away are deleted
]


class Flaky:
    """A producer whose first writes to a partition fail."""

    def __init__(self, failures: int) -> None:
        self.failures, self.sent = failures, list[int]()

    def send(self, topic: str, value: bytes, partition: int) -> "Flaky":
        self.sent.append(partition)
        return self

    def get(self, timeout: float) -> None:
        if self.failures:
            self.failures -= 1
            raise UnknownError


def test_a_record_that_a_dying_disk_refuses_is_written_again() -> None:
    producer = Flaky(1)
    filler.write(producer, "clicks", b"", [3, 4], pause=0)
    assert producer.sent == [3, 4, 3]
    with pytest.raises(UnknownError):
        filler.write(Flaky(1000), "clicks", b"", [3], pause=0)


def test_from_the_beginning_it_is_skewed_proposed_approved_by_hash_and_carried_out(tmp_path: Path) -> None:
    show = Recorder(comes=proposal())
    chapters = Balance(show, "demo", tmp_path)

    chapters.begin()
    chapters.play()

    assert show.commands() == [
        "kubectl create",
        "kubectl logs", "kubectl wait", "spindle rebalance run", "spindle disks", *CARRIED_OUT,
    ]  # fmt: skip
    assert f"spindle rebalance approve demo-1 --hash {HASH}" in show.ran
    assert (tmp_path / "rebalance.html").read_text() == "<html>"
    pod = yaml.safe_load((tmp_path / "fill.yaml").read_text())
    assert pod["spec"]["containers"][0]["env"] == [{"name": "BOOTSTRAP", "value": "demo-bootstrap:9092"}]
    compile(pod["spec"]["containers"][0]["command"][2], "filler.py", "exec")


def test_what_was_carried_out_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "before.json").write_text(told((0.6, 0.2)))
    times = {"startedAt": "2026-09-21T14:00:00Z", "endedAt": "2026-09-21T14:00:42Z"}
    show = Recorder(
        proposals=[proposal("Done", progress="1/2", movedBytes=480_000_000, dropped=[{}], **times)]
    )

    Balance(show, "demo", tmp_path).play()

    assert show.ran == ["spindle disks -o json"]
    shown = capsys.readouterr().out
    assert "demo-1 was executed by an earlier run" in shown
    assert "60%" in shown
    assert "moved     1/2 moves, 480.0 MB" in shown
    assert "time      42 s" in shown
    assert "left out  1: spindle rebalance show demo-1" in shown
    assert f"file://{tmp_path}/rebalance.html" in shown


def test_the_picture_waits_until_old_copies_are_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def disks(usable: int) -> str:
        one = {"path": "/d", "online": True, "capacity": 10**9, "usable": usable, "bytes": 10**8}
        return json.dumps([{"broker": 0, "rack": "", "dirs": [one]}])

    left = [300, 100]

    class Slow(Recorder):
        def ask(self, *command: str) -> str:
            if command[:2] == ("spindle", "disks"):
                return disks(9 * 10**8 - 10**6 * (left.pop(0) if left else 0))
            return super().ask(*command)

    (tmp_path / "before.json").write_text(disks(9 * 10**8))

    Balance(Slow(proposals=[proposal("Done")]), "demo", tmp_path).play()

    shown = capsys.readouterr().out
    assert "280.0 MB of old replicas left to delete" in shown
    assert "80.0 MB of old replicas left to delete" in shown
    assert "10% to 10% full" in shown
    assert (tmp_path / "after.json").read_text() == disks(9 * 10**8)


def test_one_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(told((0.6, 0.2)))
    under_way = rebalance(*MOVES, approved=HASH, status={"phase": "Executing"})
    show = Recorder(filler="Succeeded", proposals=[under_way])

    Balance(show, "demo", tmp_path).play()

    assert show.commands() == [
        "kubectl logs", "kubectl wait", "spindle rebalance show", "spindle rebalance wait", "spindle disks",
    ]  # fmt: skip


def test_one_that_came_to_nothing_is_proposed_anew(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(told((0.6, 0.2)))
    show = Recorder(filler="Succeeded", proposals=[proposal("Stopped")], comes=proposal(name="demo-2"))

    Balance(show, "demo", tmp_path).play()

    assert "spindle rebalance run --wait" in show.ran
    assert f"spindle rebalance approve demo-2 --hash {HASH}" in show.ran


def test_a_filler_that_failed_is_made_again(tmp_path: Path) -> None:
    show = Recorder(filler="Failed")

    Balance(show, "demo", tmp_path).begin()

    assert show.commands()[0] == "kubectl delete pod"
    assert "kubectl create" in show.commands()


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_a_filler_that_writes_or_has_written_is_left_alone(tmp_path: Path, phase: str) -> None:
    show = Recorder(filler=phase)

    Balance(show, "demo", tmp_path).begin()

    assert not show.ran


@pytest.mark.parametrize(
    ("fails", "comes", "says"),
    [
        ("kubectl wait --for=jsonpath={.status.phase}=Succeeded", proposal(), "its last output is above"),
        ("nothing", None, "the job proposed nothing"),
        ("nothing", rebalance(status={"phase": "Proposed"}), "moves no replica"),
        ("spindle rebalance wait", proposal(), "`spindle rebalance show demo-1` shows"),
    ],
)
def test_what_fails_says_what_next(tmp_path: Path, fails: str, comes: Any, says: str) -> None:
    show = Recorder(comes=comes)
    show.fails = fails

    with pytest.raises(DemoError, match=says):
        Balance(show, "demo", tmp_path).play()


def test_commands_are_shown_as_they_would_be_typed(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show = Show()
    code = "print('one'); print('two')"

    show.run(sys.executable, "-c", code)
    kept = show.keep(tmp_path / "kept", sys.executable, "-c", code)

    shown = capfd.readouterr().out
    assert f"-c '{code}'" not in shown  # its quotes are escaped
    assert "one\ntwo\n" in shown
    assert kept == (tmp_path / "kept").read_text() == "one\ntwo\n"


def test_a_command_that_fails_shows_everything_that_it_said(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print('one'); print('two'); sys.exit('why')"

    with pytest.raises(DemoError, match="failed"):
        Show().run(sys.executable, "-c", code)
    assert "one\ntwo\n" in capfd.readouterr().out
    with pytest.raises(DemoError, match="failed: why"):
        Show().ask(sys.executable, "-c", code)


def test_commands_store_compiled_modules_in_the_cache_where_python_may_not_store_them_beside_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "module.py").write_text("")
    command = (
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path / 'code')!r}); import module",
    )

    Show().ask(*command)

    assert [path.name for path in (tmp_path / "code").iterdir()] == ["module.py"]
    assert list((tmp_path / "cache" / "spindle" / "python").rglob("module.*.pyc"))

    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE")
    Show().ask(*command)

    assert (tmp_path / "code" / "__pycache__").is_dir()  # as everywhere


def test_a_silence_is_explained(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.demo.show.SILENCE_S", 0.2)
    code = "import sys; print('one', flush=True); sys.stdin.read()"
    command = ("sh", "-c", f'sleep 0.5 | "{sys.executable}" -c "{code}"')

    Show().run(*command, silent="copying")

    shown = capfd.readouterr().out
    assert "one\n" in shown
    assert "s: copying\n" in shown

    assert Show().ask(*command) == "one\n"
    with Show().beside("sh", "-c", "sleep 0.5; echo one; exec sleep 60", until="one") as line:
        assert line == "one"
    shown = capfd.readouterr().out
    assert "sleep 0.5" in shown
    assert "is still running\n" in shown
    assert "s: it starts\n" in shown


def test_a_command_beside_ends_with_the_block(capfd: pytest.CaptureFixture[str]) -> None:
    with Show().beside("sh", "-c", "echo; echo at http://here; exec sleep 60", until="http://") as line:
        assert line == "at http://here"
    with pytest.raises(DemoError, match="failed"), Show().beside("true", until="http://"):
        pass
