"""Where the output goes: to a full disk, and to a reader that is gone; and the commands in it that a user copies."""

import subprocess
import sys

import pytest

from spindle_cli import helper_pod, rebalance_report
from spindle_cli.copied import Typed
from spindle_cli.kube import KubeError

COMMAND = [sys.executable, "-m", "spindle_cli.main", "explain", "CrashLooping"]


def test_a_full_disk_is_told_in_one_sentence() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "spindle: the output cannot be written: No space left on device\n"


def test_a_reader_that_is_gone_is_no_error_of_the_program() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


class NothingThere:
    """A namespace with a report that has no content, and without pods."""

    namespace = "team-a"

    def config_map(self, _: str) -> dict[str, object]:
        return {}

    def pods(self, _: str) -> list[object]:
        return []


@pytest.mark.parametrize("call", [rebalance_report.fetch, helper_pod.image_of])
def test_commands_to_copy_act_in_the_same_place(call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Typed, "namespace", "team-a")
    monkeypatch.setattr(Typed, "context", "far")
    assert callable(call)
    with pytest.raises(KubeError, match="demo -n team-a --context far"):
        call(NothingThere(), "demo")
