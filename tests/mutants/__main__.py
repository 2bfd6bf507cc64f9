"""``make mutants``: is there a test that notices when a safety rule permits what it must not?

Each function of `tests.mutants.weakened` is made to say yes in turn, in processes of its own, and tests are asked until one fails: the unit tests that ask
the function, the kept lives of ``tests/sim/kept``, then random lives. What none of them notices survives, and is named. With ``--world`` lives
alone are asked: whether the simulation would notice it.

A life counts only if it ends well without the mutant. One that was told as the killer is told again, as a story, by
``python -m tests.mutants --one NAME --kept FILE`` or ``--seed N``.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from tests.mutants.weakened import MUTANTS, Mutant, install
from tests.sim.__main__ import HASH_SEEDS, hash_seed

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = ROOT / "tests/sim/kept"
CPU_SECONDS: Final = 300  # of one life; one that takes longer does not end
_NONE: Final = "none"


@dataclass(frozen=True)
class Result:
    """What became of a mutant.

    Attributes:
        by: what noticed it; empty if nothing did.
        why: what was said then.
        lives: that it was in.
        seconds: of this machine, as busy as it was.
    """

    mutant: Mutant
    by: str
    why: str
    lives: int
    seconds: float

    def line(self) -> str:
        """A row of the table."""
        fate = f"{self.by} ({self.why})" if self.by else "SURVIVES"
        kind = "mend" if self.mutant.mend else "rule"
        return (
            f"| {self.mutant.name} | {kind} {self.mutant.rule} | {fate} | {self.lives} | {self.seconds:.0f} |"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="tests.mutants", description="Safety rules that say yes: which test notices?"
    )
    parser.add_argument("names", nargs="*", help="only those whose name has one of these in it")
    parser.add_argument(
        "--lives", type=int, default=200, help="random lives for each that nothing else notices"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--world", action="store_true", help="ask lives alone, no unit tests")
    parser.add_argument("--mends", action="store_true", help="only what was added for a defect")
    parser.add_argument(
        "--one", metavar="NAME", help="one mutant, in this process: with --tests, --kept or --seed"
    )
    parser.add_argument("--tests", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--kept", type=Path, nargs="+", help="kept lives")
    parser.add_argument("--seed", type=int, nargs="+", help="random lives")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        return _one(options)
    chosen = [
        mutant
        for mutant in MUTANTS
        if (not options.names or any(name in mutant.name for name in options.names))
        and (mutant.mend or not options.mends)
    ]
    return Run(options.lives, world=options.world).all(chosen, options.jobs)


class Run:
    """Many mutants, each against what may notice it."""

    def __init__(self, lives: int, *, world: bool) -> None:
        self._lives, self._world = lives, world
        self._well: dict[str, bool] = {}

    def all(self, mutants: Sequence[Mutant], jobs: int) -> int:
        """Ask all; 1 if any survives."""
        print("| mutant | of | noticed by | lives | s |\n| --- | --- | --- | --- | --- |", flush=True)
        found: list[Result] = []
        with ThreadPoolExecutor(jobs) as pool:
            for result in pool.map(self.ask, mutants):
                found.append(result)
                print(result.line(), flush=True)
        left = [result.mutant.name for result in found if not result.by]
        print(f"{len(found)} mutants, {len(left)} survive" + (f": {', '.join(left)}" if left else "."))
        return 1 if left else 0

    def ask(self, mutant: Mutant) -> Result:
        """One mutant, until something notices."""
        began = time.monotonic()
        lives = 0
        for by, why in self._told(mutant):
            lives += by.startswith(("kept", "life"))
            if why:
                return Result(mutant, by, why, lives, time.monotonic() - began)
        return Result(mutant, "", "", lives, time.monotonic() - began)

    def _told(self, mutant: Mutant) -> Iterator[tuple[str, str]]:
        """Who was asked, and what it found; unit tests first, then kept lives, then random ones."""
        if not self._world:
            for told in _child(mutant.name, "--tests", *mutant.tests):
                yield "unit test", told["broken"]
        for kept in sorted(KEPT.glob("*.json")):
            seed = json.loads(kept.read_text())["seed"]
            for told in _child(mutant.name, "--kept", str(kept), seed=seed):
                yield f"kept life {kept.stem}", self._confirmed(told, "--kept", str(kept), seed=seed)
        seeds = [
            HASH_SEEDS * number for number in range(1, self._lives + 1)
        ]  # of one hash seed, so of one process
        for told in _child(mutant.name, "--seed", *map(str, seeds), seed=0) if seeds else ():
            yield f"life {told['life']}", self._confirmed(told, "--seed", told["life"], seed=0)

    def _confirmed(self, told: dict[str, str], *which: str, seed: int) -> str:
        """What a life found, if it ends well without the mutant."""
        if not told["broken"]:
            return ""
        if which[1] not in self._well:
            self._well[which[1]] = not any(t["broken"] for t in _child(_NONE, *which, seed=seed))
        return told["broken"] if self._well[which[1]] else ""


def _child(name: str, *arguments: str, seed: int = 0) -> Iterator[dict[str, str]]:
    """What a process with a mutant tells, line by line; it ends when nobody listens any more."""
    command = [sys.executable, "-m", "tests.mutants", "--json", "--one", name, *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed(seed)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        finally:
            process.kill()
    if process.returncode not in (0, -9):
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")


def _one(options: argparse.Namespace) -> int:
    """In a process of its own: put the mutant in its place, then ask."""
    seed = json.loads(options.kept[0].read_text())["seed"] if options.kept else (options.seed or [0])[0]
    if os.environ.get("PYTHONHASHSEED") != hash_seed(seed):
        command = [sys.executable, "-m", "tests.mutants", *sys.argv[1:]]
        return subprocess.call(command, env={**os.environ, "PYTHONHASHSEED": hash_seed(seed)})
    for mutant in MUTANTS:
        if mutant.name == options.one:
            install(mutant)
            break
    else:
        if options.one != _NONE:
            sys.exit(f"there is no mutant {options.one}")
    if options.tests:
        answers = os.fdopen(os.dup(1), "w")
        _tell(answers, "unit tests", _unit(options.tests))
        return 0
    from tests.sim import life, plots

    wanted = [(path.stem, plots.parse(path.read_text())) for path in options.kept or ()]
    wanted += [(str(number), life.plot(number)) for number in options.seed or ()]
    if not options.json:
        from tests.sim import story

        outcome = life.live(wanted[0][1])
        print(story.tell(outcome), flush=True)
        os._exit(1 if outcome.broken else 0)  # what was killed in the life is not worth finalising
    for name, plot in wanted:
        _tell(sys.stdout, name, _lived(life, plot))
    return 0


def _tell(answers: IO[str], life: str, broken: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"life": life, "broken": broken}), file=answers, flush=True)


def _unit(files: Sequence[str]) -> str:
    """The first of these tests that fails; empty if none does."""
    import pytest

    failed: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid.removeprefix("tests/"))

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failed.append(f"{report.nodeid}: {report.longrepr}"[:200])

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # answers alone go to whoever reads our output
    arguments = ["-x", "-q", "-p", "no:cacheprovider", *(str(ROOT / "tests" / file) for file in files)]
    pytest.main(arguments, plugins=[Listener()])
    return failed[0] if failed else ""


def _lived(life: Any, plot: Any) -> str:
    """One life, in a fork: the first rule that broke; empty if none did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_fork(life, plot, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if not text and status:
        return f"it did not end within {CPU_SECONDS} CPU seconds"
    return " ".join(text.split())[:160]


def _in_fork(life: Any, plot: Any, writing: int) -> NoReturn:
    """The life ends with the first rule that breaks."""

    class First(list[str]):
        def append(self, text: str) -> None:
            os.write(writing, text.encode())
            os._exit(0)

    def watch(world: Any) -> None:
        world.broken = First()

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        life.live(plot, watch=watch)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        os.write(writing, f"error: {type(error).__name__}: {error}".encode())
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
