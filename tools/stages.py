"""Runs the project's checks in stages and prints the time of each.

``python -m tools.stages test`` stops at the first stage that fails and names it; every run ends with a summary.
Stages that mostly wait run in parallel, and each line of their output begins with the stage's name. The output of all
other stages is printed unchanged. Single stages, one after the other: ``python -m tools.stages test --only unit chart``.
"""

import argparse
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
CODE = ("core", "shared", "operator", "agent", "rebalance", "cli", "tools", "tests", "e2e", "bench")


REPORTS = ROOT / ".cache" / "stages"
LAST_OUTPUT = 5.0  # seconds in which the last lines of a stage must arrive
LAST_WORDS = 60.0  # seconds for an interrupted stage to clean up
_SAYING = threading.Lock()


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        says: short description.
        minutes: timeout; the stage is then interrupted, and killed a minute later.
        idle: it only computes, so beside other stages it gets the CPU time that they leave.
    """

    name: str
    says: str
    command: tuple[str, ...]
    minutes: int = 10
    idle: bool = False

    @property
    def report(self) -> Path | None:
        """The JUnit file that pytest writes; None if the stage runs no tests."""
        return REPORTS / f"{self.name}.xml" if "pytest" in self.command else None


@dataclass(frozen=True)
class Outcome:
    """Result of a stage; ``code`` is None if it did not run, ``cpu`` is the CPU time in seconds of the stage and its children."""

    stage: Stage
    seconds: float
    code: int | None
    cpu: float | None = None


def _python(*args: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *args)


def _pytest(*args: str) -> tuple[str, ...]:
    return _python("pytest", *args, "--durations=12", "--durations-min=5")


def _ensure(part: str) -> tuple[str, ...]:
    """A command that builds one part of `e2e.cluster.build` and prints its path."""
    return (sys.executable, "-c", f"from e2e.cluster.build import {part}; print({part}())")


def stages() -> dict[str, Stage]:
    """All stages by name."""
    return {stage.name: stage for stage in (*_fast_stages(), *_build_stages(), *_slow_stages())}


def _fast_stages() -> tuple[Stage, ...]:
    """Checks of the code, and tests that need nothing but Python."""
    folders = [folder for folder in CODE if (ROOT / folder).is_dir()]
    return (
        Stage("format", "ruff format", _python("ruff", "format", "--check", ".")),
        Stage("lint", "ruff, every rule", _python("ruff", "check", ".")),
        Stage("types", "mypy, strict", _python("mypy", *folders)),
        Stage(
            "imports",
            "import rules between packages",
            (str(Path(sys.executable).with_name("lint-imports")),),
        ),
        Stage(
            "unit",
            "unit and property tests",
            _pytest(
                *("tests/unit", "tests/property", "-m", "not slow"),
                *("--numprocesses=logical", "--dist=worksteal"),
            ),
            20,
        ),
        Stage(
            "sim",
            "tests of the simulation itself, and kept runs",
            _pytest("tests/sim", "--numprocesses=logical", "--dist=worksteal"),
            40,
            idle=True,
        ),
        # Seeds 1, 2, 3 … in order: how many depends on the machine, what each does does not.
        Stage(
            "lives",
            "random simulated runs: as many as four minutes allow, and at least 100",
            _python("tests.sim", "--lives", "100", "--minutes", "4", "--without", "tests/sim/open_seeds.txt"),
            60,
            idle=True,
        ),
        Stage("many-lives", "thousands of simulated runs", _python("tests.sim", "--lives", "3000"), 300),
        Stage(
            "properties",
            "property tests with many examples",
            _pytest(
                "tests/property",
                "--hypothesis-profile=thorough",
                "--numprocesses=logical",
                "--dist=worksteal",
            ),
            60,
        ),
    )


def _build_stages() -> tuple[Stage, ...]:
    """Parts that tests need, built apart from them, so that compile time is shown separately and not counted there."""
    return (
        Stage("helm", "helm, built once", _ensure("ensure_helm"), 20),
        Stage("health", "kstatus and Argo CD's Lua, built once", _ensure("ensure_health"), 20),
        Stage("build", "parts of the testbed, built once", _python("e2e.cluster", "build"), 40),
        Stage("cert-manager", "cert-manager's controllers, built once", _ensure("ensure_cert_manager"), 40),
        Stage("monitoring", "the Prometheus operator, built once", _ensure("ensure_monitoring"), 40),
        Stage("traefik", "Traefik, built once", _ensure("ensure_traefik"), 40),
        Stage("csi", "sidecars of CSI drivers, built once", _ensure("ensure_csi_sidecars"), 40),
        Stage(
            "prometheus",
            "Prometheus with discovery of pods, built once",
            _ensure("ensure_discovering_prometheus"),
            40,
        ),
    )


def _slow_stages() -> tuple[Stage, ...]:
    """Tests with real parts: Helm, an API server, Kafka, Spark, a whole cluster."""
    return (
        Stage("chart", "helm lint and the rendered chart", _pytest("tests/chart"), 15),
        # Mostly waiting for operator processes. Each worker has its own API server.
        Stage(
            "kube",
            "tests on a real API server",
            _pytest(
                *("tests/kube", "tests/security"),
                *("-m", "kube and not slow", "--numprocesses=2", "--dist=loadfile"),
            ),
            20,
        ),
        Stage(
            "kube-slow",
            "the same, slowest tests",
            _pytest("tests/kube", "tests/security", "-m", "kube and slow"),
            20,
        ),
        Stage("spark", "tests on a real Spark", _pytest("tests/spark", "tests/security", "-m", "spark"), 15),
        # Mostly waiting, for example until a broker is fenced or a move ends. Two files at a time take little more than half the time.
        Stage(
            "kafka",
            "tests on real Kafka processes and disks",
            _pytest(
                *("tests/kafka", "tests/security"),
                *("-m", "kafka and not slow", "--numprocesses=2", "--dist=loadfile"),
            ),
            45,
        ),
        Stage(
            "kafka-slow",
            "the same, slowest tests",
            _pytest("tests/kafka", "tests/security", "-m", "kafka and slow"),
            60,
        ),
        Stage(
            "release",
            "a release, made twice, and its images started",
            _pytest("tests/release", "-m", "slow"),
            90,
        ),
        Stage(
            "testbed",
            "quick tests of the testbed itself",
            _pytest("tests/testbed", "-m", "capability"),
            15,
        ),
        Stage("faults", "all tests of the testbed itself", _pytest("tests/testbed", "-m", "e2e"), 30),
        Stage("e2e", "one scenario per capability", _pytest("e2e/scenarios", "-m", "capability", "-v"), 45),
        Stage("scenarios", "all scenarios", _pytest("e2e/scenarios", "-m", "e2e", "-v"), 300),
    )


@dataclass(frozen=True)
class Beside:
    """Lanes of stages that run in parallel; the stages of one lane run one after the other."""

    lanes: tuple[tuple[str, ...], ...]


RUNS: dict[str, tuple[str | Beside, ...]] = {
    "test-fast": ("format", "lint", "types", "imports", "unit", "helm", "health", "chart"),
    "test": (
        "format",
        "lint",
        # Each lane uses one CPU.
        Beside((("types", "imports", "health", "chart"), ("build",))),
        "unit",
        # Tests on real Kafka wait most of the time, for example until a broker is fenced or a copy ends.
        Beside((("kafka",), ("kube", "spark"))),
        "testbed",
        # Scenarios wait half of the time. The simulation gets the CPU time that they leave.
        Beside((("e2e",), ("sim", "lives"))),
    ),
    "e2e": (
        "properties",
        "many-lives",
        "build",
        "cert-manager",
        "monitoring",
        "traefik",
        "csi",
        "prometheus",
        "kube-slow",
        "kafka-slow",
        "release",
        "faults",
        "scenarios",
    ),
}


def names(run: Sequence[str | Beside]) -> tuple[str, ...]:
    """The stages of a run in the order of its definition."""
    return tuple(name for step in run for lane in _lanes(step) for name in lane)


def _lanes(step: str | Beside) -> tuple[tuple[str, ...], ...]:
    return ((step,),) if isinstance(step, str) else step.lanes


@dataclass
class _Running:
    """A stage's process.

    Attributes:
        copying: prints its output; None if it has the terminal.
        interrupted: when it was interrupted at its timeout; None if it was not.
    """

    stage: Stage
    process: "subprocess.Popen[str]"
    copying: threading.Thread | None = None
    started: float = field(default_factory=time.monotonic)
    interrupted: float | None = None

    @classmethod
    def start(cls, stage: Stage, *, prefix: str) -> "_Running":
        """Start it; ``prefix`` precedes each line of its output; if it is empty, the stage uses the terminal directly."""
        pipe = subprocess.PIPE if prefix else None
        error = subprocess.STDOUT if prefix else None
        # Otherwise Python would write to the pipe only when its buffer is full.
        env = {**os.environ, "PYTHONUNBUFFERED": "1"} if prefix else None
        least = ("nice", "-n", "19") if prefix and stage.idle else ()
        report = stage.report
        if report is not None:
            report.unlink(missing_ok=True)
        process = subprocess.Popen(
            (*least, *stage.command, *((f"--junitxml={report}",) if report is not None else ())),
            cwd=ROOT,
            stdout=pipe,
            stderr=error,
            env=env,
            text=True,
            errors="replace",
        )
        if not prefix:
            return cls(stage, process)
        copying = threading.Thread(target=_copy, args=(process, prefix), daemon=True)
        copying.start()
        return cls(stage, process, copying)

    def wait(self) -> Outcome:
        """Wait for its end; the result includes the CPU time of all child processes that it waited for."""
        _, status, used = os.wait4(self.process.pid, 0)
        # Popen did not reap the process itself and would wait for one that no longer exists.
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.copying is not None:
            # Its last lines say why it failed. A process that it left behind may keep the pipe open.
            self.copying.join(LAST_OUTPUT)
        code = self.process.returncode if self.interrupted is None else 124
        return Outcome(self.stage, time.monotonic() - self.started, code, used.ru_utime + used.ru_stime)

    def end_if_it_hangs(self) -> None:
        """Interrupt it at its timeout; kill it if that does not help."""
        now = time.monotonic()
        if self.interrupted is not None:
            if now > self.interrupted + LAST_WORDS:
                self.process.kill()
        elif now > self.started + self.stage.minutes * 60:
            _say(f"── {self.stage.name}: still running after {self.stage.minutes} minutes, interrupting it\n")
            self.process.send_signal(signal.SIGINT)
            self.interrupted = now


def _copy(process: "subprocess.Popen[str]", prefix: str) -> None:
    """Print the output of a process line by line until it closes it."""
    for line in process.stdout or ():
        _say(f"{prefix} │ {line}")


def _say(text: str) -> None:
    """Write whole lines at once: the output of several stages is copied side by side, and ``print`` writes the end of a line by itself."""
    with _SAYING:
        sys.stdout.write(text)
        sys.stdout.flush()


def run_beside(lanes: Sequence[Sequence[Stage]], head: Iterator[str]) -> list[Outcome]:
    """Run lanes of stages in parallel; after a failure no lane starts another stage.

    Args:
        lanes: the stages of each lane in order.
        head: yields the heading of each stage that starts.

    Returns:
        The results of all stages in the order of the lanes.
    """
    outcomes: dict[str, Outcome] = {}
    left = [list(lane) for lane in lanes]
    running: dict[int, _Running] = {}
    ended: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()

    def start_next(lane: int) -> None:
        if left[lane] and not _failed(outcomes.values()):
            stage = left[lane].pop(0)
            _say(f"\n── {next(head)} {stage.name}: {stage.says}\n")
            begun = running[lane] = _Running.start(stage, prefix=stage.name if len(lanes) > 1 else "")
            threading.Thread(target=lambda: ended.put((lane, begun.wait())), daemon=True).start()

    try:
        for lane in range(len(lanes)):
            start_next(lane)
        while running:
            try:
                lane, outcome = ended.get(timeout=1.0)
            except queue.Empty:
                for each in running.values():
                    each.end_if_it_hangs()
                continue
            outcomes[outcome.stage.name] = outcome
            del running[lane]
            _say(f"{_verdict(outcome)}\n")
            start_next(lane)
    except KeyboardInterrupt:
        # The terminal sent the interrupt to the stages too; give them time to clean up.
        deadline = time.monotonic() + LAST_WORDS
        while running and (seconds := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                del running[ended.get(timeout=seconds)[0]]
        for each in running.values():
            each.process.kill()
        raise
    return [outcomes.get(stage.name, Outcome(stage, 0.0, None)) for lane in lanes for stage in lane]


def _failed(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.code for outcome in outcomes)


def _verdict(outcome: Outcome) -> str:
    result = "ok" if outcome.code == 0 else f"FAILED ({outcome.code})"
    return f"── {outcome.stage.name}: {result} in {outcome.seconds:.1f} s"


def run_all(steps: Sequence[Sequence[Sequence[Stage]]]) -> list[Outcome]:
    """Run steps in order, up to and including the first in which a stage fails; each step consists of lanes of stages."""
    count = sum(len(lane) for step in steps for lane in step)
    head = (f"{number}/{count}" for number in range(1, count + 1))
    outcomes: list[Outcome] = []
    for lanes in steps:
        if _failed(outcomes):
            outcomes += [Outcome(stage, 0.0, None) for lane in lanes for stage in lane]
        else:
            outcomes += run_beside(lanes, head)
    return outcomes


def failed_tests(outcome: Outcome) -> list[str]:
    """One line for each failed test of a stage, with the first line of its error; empty if it wrote no report."""
    report = outcome.stage.report
    if not outcome.code or report is None:
        return []
    try:
        cases = ET.parse(report).iter("testcase")  # noqa: S314, written by our own pytest
    except (FileNotFoundError, ET.ParseError):  # pytest was killed
        return []
    lines = []
    for case in cases:
        for problem in (*case.findall("failure"), *case.findall("error")):
            error = (problem.get("message") or "").partition("\n")[0][:300]
            lines.append(f"{case.get('classname')}.{case.get('name')}: {error}")
    return lines


def summary(name: str, outcomes: Sequence[Outcome], seconds: float) -> str:
    """The summary lines of a run that took ``seconds``."""
    width = max(len(outcome.stage.name) for outcome in outcomes)
    lines = [f"\n── {name}"]
    for outcome in outcomes:
        word = {None: "not run", 0: "ok"}.get(outcome.code, "FAILED")
        took = "" if outcome.code is None else f"{outcome.seconds:8.1f} s"
        cpu = "" if outcome.cpu is None else f"  (CPU {outcome.cpu:.1f} s)"
        lines.append(f"   {outcome.stage.name:<{width}}  {word:<8}{took}{cpu}".rstrip())
        # Again at the end: where stages run in parallel, hundreds of lines may follow a test's own error.
        lines += [f"      {line}" for line in failed_tests(outcome)]
    failed = [outcome.stage.name for outcome in outcomes if outcome.code]
    lines.append(f"── {name}: {f'FAILED at {failed[0]}' if failed else 'all ok'}, {seconds:.0f} s in all")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="stages", description="Run the project's checks.")
    parser.add_argument("run", choices=sorted(RUNS))
    parser.add_argument("--only", nargs="+", metavar="STAGE", default=[], help="run only these stages")
    options = parser.parse_args(arguments)
    known, wanted = stages(), RUNS[options.run]
    if unknown := set(options.only) - set(names(wanted)):
        parser.error(
            f"{options.run} has no stage {', '.join(sorted(unknown))}, but {', '.join(names(wanted))}"
        )
    steps = [[[known[name] for name in lane] for lane in _lanes(step)] for step in options.only or wanted]
    started = time.monotonic()
    outcomes = run_all(steps)
    print(summary(options.run, outcomes, time.monotonic() - started), flush=True)
    return int(_failed(outcomes))


if __name__ == "__main__":
    sys.exit(main())
