"""Runs the project's checks, one stage after the other, and says what each one cost.

``python -m tools.stages test`` stops at the first stage that fails and names it; a summary closes every run.
Output of the stages passes through untouched. Single stages: ``python -m tools.stages test --only unit chart``.
"""

import argparse
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("core", "operator", "agent", "rebalance", "cli", "tools", "tests", "e2e", "bench")


LAST_WORDS = 60.0  # seconds that an interrupted stage has to take down what it put up


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        says: what it does, in a few words.
        minutes: when it has hung for certain; it is interrupted then, and killed a minute later.
    """

    name: str
    says: str
    command: tuple[str, ...]
    minutes: int = 10


@dataclass(frozen=True)
class Outcome:
    """How a stage ended; ``code`` None for one that was not reached, ``cpu`` the processor seconds of it and its children."""

    stage: Stage
    seconds: float
    code: int | None
    cpu: float | None = None


def _python(*args: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *args)


def _pytest(*args: str) -> tuple[str, ...]:
    return _python("pytest", *args)


def _ensure(part: str) -> tuple[str, ...]:
    """A command that builds one part of `e2e.cluster.build`, and says where it is."""
    return (sys.executable, "-c", f"from e2e.cluster.build import {part}; print({part}())")


def stages() -> dict[str, Stage]:
    """Every stage by name."""
    folders = [folder for folder in CODE if (ROOT / folder).is_dir()]
    return {
        stage.name: stage
        for stage in (
            Stage("format", "ruff format", _python("ruff", "format", "--check", ".")),
            Stage("lint", "ruff, every rule", _python("ruff", "check", ".")),
            Stage("types", "mypy, strict", _python("mypy", *folders)),
            Stage("imports", "who may import whom", (str(Path(sys.executable).with_name("lint-imports")),)),
            Stage(
                "unit",
                "unit and property tests",
                _pytest("tests/unit", "tests/property", "--numprocesses=logical", "--dist=worksteal"),
                20,
            ),
            Stage(
                "sim",
                "the simulation's own parts, and kept lives",
                _pytest("tests/sim", "--numprocesses=logical", "--dist=worksteal"),
                20,
            ),
            Stage("many-lives", "thousands of simulated lives", _python("tests.sim", "--lives", "3000"), 300),
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
            # Built apart from the tests that need it, so that minutes of compiling can be seen and are not counted there.
            Stage("helm", "helm, built once", _ensure("ensure_helm"), 20),
            Stage("health", "kstatus and Argo CD's Lua, built once", _ensure("ensure_health"), 20),
            Stage("build", "the testbed's parts, built once", _python("e2e.cluster", "build"), 40),
            Stage(
                "cert-manager", "cert-manager's controllers, built once", _ensure("ensure_cert_manager"), 40
            ),
            Stage("chart", "helm lint and the rendered chart", _pytest("tests/chart"), 15),
            # Mostly waiting for operators' processes. Each worker has an API server of its own.
            Stage(
                "kube",
                "on a real API server",
                _pytest(
                    *("tests/kube", "tests/security"),
                    *("-m", "kube and not slow", "--numprocesses=2", "--dist=loadfile"),
                ),
                20,
            ),
            Stage(
                "kube-slow",
                "the same, what takes longest",
                _pytest("tests/kube", "tests/security", "-m", "kube and slow"),
                20,
            ),
            Stage("spark", "on a real Spark", _pytest("tests/spark", "tests/security", "-m", "spark"), 15),
            # Mostly waiting: for a broker to be fenced, a move to end. Two files at a time do it in little more than half the time.
            Stage(
                "kafka",
                "on real Kafka processes and disks",
                _pytest(
                    *("tests/kafka", "tests/security"),
                    *("-m", "kafka and not slow", "--numprocesses=2", "--dist=loadfile"),
                ),
                45,
            ),
            Stage(
                "kafka-slow",
                "the same, what takes longest",
                _pytest("tests/kafka", "tests/security", "-m", "kafka and slow"),
                60,
            ),
            Stage("testbed", "the testbed itself", _pytest("tests/testbed", "-m", "capability"), 15),
            Stage("faults", "all of the testbed itself", _pytest("tests/testbed", "-m", "e2e"), 30),
            Stage("e2e", "a scenario per capability", _pytest("e2e/scenarios", "-m", "capability", "-v"), 45),
            Stage("scenarios", "every scenario", _pytest("e2e/scenarios", "-m", "e2e", "-v"), 300),
        )
    }


RUNS: dict[str, tuple[str, ...]] = {
    "test-fast": ("format", "lint", "types", "imports", "unit", "helm", "health", "chart"),
    "test": (
        "format",
        "lint",
        "types",
        "imports",
        "unit",
        "sim",
        "build",
        "health",
        "chart",
        "kube",
        "spark",
        "kafka",
        "testbed",
        "e2e",
    ),
    "e2e": (
        "properties",
        "many-lives",
        "build",
        "cert-manager",
        "kube-slow",
        "kafka-slow",
        "faults",
        "scenarios",
    ),
}


def run(stage: Stage) -> int:
    """Run one stage with the terminal it was given.

    Returns:
        Its exit code; 124 if it was stopped for having hung.
    """
    process = subprocess.Popen(stage.command, cwd=ROOT)
    try:
        return process.wait(timeout=stage.minutes * 60)
    except subprocess.TimeoutExpired:
        print(f"── {stage.name}: still running after {stage.minutes} minutes, interrupting it", flush=True)
        _stop(process)
        return 124
    except KeyboardInterrupt:
        # The terminal sent the interrupt to the stage too: what it put up, it may take down first.
        _stop(process, send=False)
        raise


def _stop(process: "subprocess.Popen[bytes]", *, send: bool = True) -> None:
    if send:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=LAST_WORDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_all(chosen: Sequence[Stage]) -> list[Outcome]:
    """Run stages in order, up to and with the first that fails."""
    outcomes: list[Outcome] = []
    for number, stage in enumerate(chosen, 1):
        if any(outcome.code for outcome in outcomes):
            outcomes.append(Outcome(stage, 0.0, None))
            continue
        print(f"\n── {number}/{len(chosen)} {stage.name}: {stage.says}", flush=True)
        started, cpu = time.monotonic(), _cpu_of_children()
        code = run(stage)
        seconds = time.monotonic() - started
        outcomes.append(Outcome(stage, seconds, code, _cpu_of_children() - cpu))
        print(f"── {stage.name}: {'ok' if code == 0 else f'FAILED ({code})'} in {seconds:.1f} s", flush=True)
    return outcomes


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def summary(name: str, outcomes: Sequence[Outcome]) -> str:
    """The closing lines of a run."""
    width = max(len(outcome.stage.name) for outcome in outcomes)
    lines = [f"\n── {name}"]
    for outcome in outcomes:
        word = {None: "not run", 0: "ok"}.get(outcome.code, "FAILED")
        seconds = "" if outcome.code is None else f"{outcome.seconds:8.1f} s"
        cpu = "" if outcome.cpu is None else f"  (processor {outcome.cpu:.1f} s)"
        lines.append(f"   {outcome.stage.name:<{width}}  {word:<8}{seconds}{cpu}".rstrip())
    total = sum(outcome.seconds for outcome in outcomes)
    failed = [outcome.stage.name for outcome in outcomes if outcome.code]
    lines.append(f"── {name}: {f'FAILED at {failed[0]}' if failed else 'all ok'}, {total:.0f} s in all")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="stages", description="Run the project's checks.")
    parser.add_argument("run", choices=sorted(RUNS))
    parser.add_argument("--only", nargs="+", metavar="STAGE", default=[], help="only these stages of the run")
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(RUNS[options.run]):
        parser.error(
            f"{options.run} has no stage {', '.join(sorted(unknown))}, but {', '.join(RUNS[options.run])}"
        )
    known = stages()
    outcomes = run_all([known[name] for name in options.only or RUNS[options.run]])
    print(summary(options.run, outcomes), flush=True)
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
