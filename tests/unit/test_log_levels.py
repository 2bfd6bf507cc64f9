"""The levels of spec.logging reach nodes that run, and restart only pods that cannot read them."""

import os
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from spindle.config.preview import LIVE, RUNNING, PreviewChange, preview
from spindle.model.actions import Apply, Evict
from spindle.model.state import read_state
from tests.model.world import World
from tests.unit.test_config_refused import passes, waiting
from tests.unit.test_topic_metrics import running

SCRIPTS = resources.files("spindle_agent.preflight").joinpath("data")


def listed(world: World) -> list[str] | None:
    found = world.objects.get(("ConfigMap", "demo-loggers"))
    return None if found is None else str(found["data"]["loggers"]).splitlines()


def levels(world: World, **loggers: str) -> None:
    world.cluster["spec"]["logging"] = {"loggers": loggers}


def test_without_levels_there_is_no_list() -> None:
    assert listed(running()) is None


def test_changed_levels_restart_nothing() -> None:
    world = running()
    for loggers in ({"root": "WARN", "kafka": "DEBUG"}, {"kafka": "INFO"}, {}):
        levels(world, **loggers)
        assert not [a for a in passes(world, 8) if isinstance(a, Evict)]
        assert listed(world) == sorted(f"{name} {level}" for name, level in loggers.items())


def test_pods_of_an_earlier_version_restart_once_levels_are_set_and_not_before() -> None:
    world = running()
    old = ("demo-broker-0", "demo-broker-2", "demo-controller-1")
    for name in old:
        spec = world.get("Pod", name)["spec"]
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "loggers"]
    assert not [a for a in passes(world, 10) if isinstance(a, Evict)]
    levels(world, root="WARN")
    assert {a.pod for a in passes(world, 90) if isinstance(a, Evict)} == set(old)
    assert not [a for a in passes(world, 10) if isinstance(a, Evict)]


def test_a_list_that_somebody_changed_is_restored() -> None:
    world = running()
    levels(world, root="WARN")
    passes(world, 3)
    world.get("ConfigMap", "demo-loggers")["data"]["loggers"] = "root TRACE\n"
    assert [a for a in passes(world, 3) if isinstance(a, Apply)]
    assert listed(world) == ["root WARN"]


@pytest.mark.parametrize(
    ("loggers", "part"),
    [
        ({"kafka server": "DEBUG"}, "'kafka server' is not the name of a logger"),
        ({"${env:X}": "DEBUG"}, "is not the name of a logger"),
        ({"a\nstatus": "DEBUG"}, "is not the name of a logger"),
        ({"x" * 201: "DEBUG"}, "is not the name of a logger"),
        ({f"l{i}": "DEBUG" for i in range(51)}, "there are 51, and there may be 50"),
    ],
)
def test_a_wrong_name_is_refused_with_its_field(loggers: dict[str, str], part: str) -> None:
    """Also where the CRD is of an earlier version and did not refuse it."""
    world = running()
    levels(world, kafka="DEBUG")
    passes(world, 4)
    levels(world, **loggers)
    passes(world, 4)
    (wait,) = waiting(world)
    assert wait["message"].startswith("spec.logging.loggers: ")
    assert part in wait["message"]
    assert listed(world) == ["kafka DEBUG"]


def test_preview_says_that_nothing_restarts() -> None:
    def spec(**loggers: str) -> Any:
        world = World.of(logging={"loggers": loggers})
        return read_state(world.snapshot(), world.now).spec

    assert preview(spec(), spec(root="WARN")) == [PreviewChange("logging.loggers", "all nodes", LIVE)]
    assert preview(spec(root="WARN"), spec()) == [PreviewChange("logging.loggers", "all nodes", RUNNING)]
    assert preview(spec(root="WARN"), spec(root="WARN")) == []


# The scripts


class Scripts:
    """logging.sh with a list of levels."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.config, self.loggers, self.shell = folder / "log4j2.properties", folder / "loggers", shell

    def run(self, command: str) -> None:
        script = f'set -u; H={SCRIPTS}; . "$H/logging.sh"; {command}'
        env = {
            "PATH": os.environ["PATH"],
            "SPINDLE_LOG4J_CONFIG": str(self.config),
            "SPINDLE_LOGGERS": str(self.loggers),
        }
        done = subprocess.run([self.shell, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert done.stderr == done.stdout == ""

    def levels(self) -> dict[str, str]:
        """Logger → level, as Log4j reads the file: of two lines with one key, the later one."""
        lines = (line.partition(" = ") for line in self.config.read_text().splitlines() if " = " in line)
        found = {key: value for key, _, value in lines}
        names = {
            key.removesuffix(".name"): value
            for key, value in found.items()
            if key.startswith("logger.") and key.endswith(".name")
        }
        assert len(set(names.values())) == len(names)
        return {"root": found["rootLogger.level"]} | {
            name: found[f"{key}.level"] for key, name in names.items()
        }


PRESET = {"root": "INFO", "state.change.logger": "WARN", "kafka.authorizer.logger": "INFO"}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_log4j_gets_changed_levels(tmp_path: Path, shell: str) -> None:
    scripts = Scripts(tmp_path, shell)
    scripts.run("write_log_config")
    assert scripts.levels() == PRESET
    scripts.loggers.write_text("kafka.server DEBUG\norg.apache.kafka.raft.Quorum$1 TRACE\nroot WARN\n")
    scripts.run("refresh_log_config")
    mine = {"root": "WARN", "kafka.server": "DEBUG", "org.apache.kafka.raft.Quorum$1": "TRACE"}
    assert scripts.levels() == PRESET | mine
    first = scripts.config.stat().st_ino
    scripts.run("refresh_log_config")
    assert scripts.config.stat().st_ino == first
    scripts.loggers.write_text("state.change.logger INFO\nkafka.authorizer.logger OFF\n")
    scripts.run("refresh_log_config")
    assert scripts.levels() == {
        "root": "INFO",
        "state.change.logger": "INFO",
        "kafka.authorizer.logger": "OFF",
    }
    for gone in (lambda: scripts.loggers.write_text(""), scripts.loggers.unlink):
        gone()
        scripts.run("refresh_log_config")
        assert scripts.levels() == PRESET


def test_a_line_that_is_no_level_is_no_setting(tmp_path: Path) -> None:
    scripts = Scripts(tmp_path, "sh")
    scripts.loggers.write_text(
        "appender.x.type = File\nroot LOUD\nroot\n$(touch x) INFO\n${env:A} INFO\na b INFO\nfine DEBUG\n"
        + "x" * 201
        + " INFO\n\n* INFO\n"
    )
    scripts.run("write_log_config")
    assert scripts.levels() == PRESET | {"fine": "DEBUG"}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_list_without_end_takes_no_probe_its_time(tmp_path: Path, shell: str) -> None:
    """Whoever may write ConfigMaps can fill this one with a megabyte; to look for equal names in all of it takes half a minute."""
    scripts = Scripts(tmp_path, shell)
    lines = [f"com.example.C{number} DEBUG" for number in range(30_000)]
    scripts.loggers.write_text("\n".join(lines))
    scripts.run("write_log_config")
    assert 50 < len(scripts.levels()) < 110
    first = scripts.config.stat().st_ino
    scripts.run("refresh_log_config")
    assert scripts.config.stat().st_ino == first


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    scripts = Scripts(tmp_path, "sh")
    scripts.config.write_text("rootLogger.level = ERROR\n")
    scripts.loggers.write_text("root DEBUG\n")
    scripts.run("refresh_log_config")
    assert scripts.config.read_text() == "rootLogger.level = ERROR\n"
