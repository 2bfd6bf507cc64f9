"""``make mutants``: is there a test that notices when a safety rule permits what it must not?

Each function of `tests.mutants.weakened` is made to say yes in turn, in processes of its own, and tests are asked until one fails: the unit tests that ask
the function, the kept lives of ``tests/sim/kept``, then random lives. What none of them notices survives, and is named. With ``--world`` lives
alone are asked: whether the simulation would notice it; with ``--random`` random ones alone.

A life counts only if it ends well without the mutant, and is run with it only if the mutant would answer otherwise in it (`tests.mutants.reach`): each life
is run once for that, for all mutants. One that was told as the killer is told again, as a story, by
``python -m tests.mutants --one NAME --kept FILE`` or ``--seed N``.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from tests.mutants.reach import Reach
from tests.mutants.weakened import MUTANTS, Mutant, install
from tests.sim.__main__ import HASH_SEEDS, hash_seed

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = ROOT / "tests/sim/kept"
BATCH: Final = 20  # lives that one process runs
CPU_SECONDS: Final = 300  # of one life; one that takes longer does not end
_NONE: Final = "none"


@dataclass(frozen=True)
class Result:
    """What became of a mutant.

    Attributes:
        by: what noticed it; empty if nothing did.
        why: what was said then.
        lives: that were asked, also those in which it would have changed nothing.
        run: lives that were run with it.
        seconds: of this machine, as busy as it was.
    """

    mutant: Mutant
    by: str
    why: str
    lives: int
    run: int
    seconds: float

    def line(self) -> str:
        """A row of the table."""
        fate = f"{self.by} ({self.why})" if self.by else "SURVIVES"
        kind = "mend" if self.mutant.mend else "rule"
        return f"| {self.mutant.name} | {kind} {self.mutant.rule} | {fate} | {self.lives} | {self.run} | {self.seconds:.0f} |"


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
    parser.add_argument("--random", action="store_true", help="ask random lives alone")
    parser.add_argument("--mends", action="store_true", help="only what was added for a defect")
    parser.add_argument(
        "--limit", type=float, default=0.0, help="seconds after which no further life is run with a mutant"
    )
    parser.add_argument(
        "--one", metavar="NAME", help="one mutant, in this process: with --tests, --kept or --seed"
    )
    parser.add_argument("--tests", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--kept", type=Path, nargs="+", help="kept lives")
    parser.add_argument("--seed", type=int, nargs="+", help="random lives")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--reach", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        return _one(options)
    chosen = [
        mutant
        for mutant in MUTANTS
        if (not options.names or any(name in mutant.name for name in options.names))
        and (mutant.mend or not options.mends)
    ]
    return Run(options).all(chosen)


@dataclass(frozen=True)
class Life:
    """One that may be asked.

    Attributes:
        which: how it is named to a process: ``--kept`` and a file, or ``--seed`` and a number.
        seed: that gives the process its hash seed.
    """

    name: str
    which: tuple[str, str]
    seed: int

    @property
    def batch(self) -> tuple[str, str]:
        """One process runs all lives that have this in common; random ones share a hash seed."""
        return self.which if self.which[0] == "--kept" else ("--seed", "")


def told_of(name: str, lives: Sequence[Life], *more: str) -> Iterator[tuple[Life, dict[str, Any]]]:
    """Run lives with a mutant, in order; what is told of each."""
    for (which, _), group in itertools.groupby(lives, lambda life: life.batch):
        batch = list(group)
        yield from zip(
            batch,
            _child(name, *more, which, *(each.which[1] for each in batch), seed=batch[0].seed),
            strict=False,
        )


class Lives:
    """Kept and random ones; each is run once without a mutant, to see how it ends and which mutants it reaches."""

    def __init__(self, options: argparse.Namespace) -> None:
        kept = [] if options.random else sorted(KEPT.glob("*.json"))
        self.all = [
            Life(f"kept life {path.stem}", ("--kept", str(path)), json.loads(path.read_text())["seed"])
            for path in kept
        ]
        # Of one hash seed, so of one process.
        numbers = [HASH_SEEDS * number for number in range(1, options.lives + 1)]
        self.all += [Life(f"life {number}", ("--seed", str(number)), 0) for number in numbers]
        self._jobs = options.jobs
        self._reached: dict[Life, frozenset[str]] | None = None
        self._lock = threading.Lock()

    def reached(self) -> dict[Life, frozenset[str]]:
        """Each life that ends well, with the mutants that it reaches."""
        with self._lock:
            if self._reached is None:
                parts = [self.all[first : first + BATCH] for first in range(0, len(self.all), BATCH)]
                with ThreadPoolExecutor(self._jobs) as pool:
                    told = itertools.chain(
                        *pool.map(lambda part: list(told_of(_NONE, part, "--reach")), parts)
                    )
                    self._reached = {life: frozenset(t["reached"]) for life, t in told if not t["broken"]}
                failed = [life.name for life in self.all if life not in self._reached]
                print(
                    f"{len(self._reached)} lives end well{': not ' + ', '.join(failed) if failed else ''}",
                    file=sys.stderr,
                )
            return self._reached


class Run:
    """Many mutants, each against what may notice it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._lives = Lives(options)

    def all(self, mutants: Sequence[Mutant]) -> int:
        """Ask all; 1 if any survives."""
        print(
            "| mutant | of | noticed by | lives | run | s |\n| --- | --- | --- | --- | --- | --- |",
            flush=True,
        )
        found: list[Result] = []
        with ThreadPoolExecutor(self._options.jobs) as pool:
            for result in pool.map(self.ask, mutants):
                found.append(result)
                print(result.line(), flush=True)
        left = [result.mutant.name for result in found if not result.by]
        print(f"{len(found)} mutants, {len(left)} survive" + (f": {', '.join(left)}" if left else "."))
        return 1 if left else 0

    def ask(self, mutant: Mutant) -> Result:
        """One mutant, until something notices; unit tests first, then kept lives, then random ones."""
        if not (self._options.world or self._options.random):
            for told in _child(mutant.name, "--tests", *mutant.tests):
                if told["broken"]:
                    return Result(mutant, "unit test", told["broken"], 0, 0, 0.0)
        reached, lives = self._lives.reached(), self._lives.all
        began, run = time.monotonic(), 0
        for life, told in told_of(
            mutant.name, [life for life in lives if mutant.name in reached.get(life, ())]
        ):
            run += 1
            took, asked = time.monotonic() - began, lives.index(life) + 1
            if told["broken"]:
                return Result(mutant, life.name, told["broken"], asked, run, took)
            if 0 < self._options.limit < took:
                return Result(mutant, "", "", asked, run, took)
        return Result(mutant, "", "", len(lives), run, time.monotonic() - began)


def _child(name: str, *arguments: str, seed: int = 0) -> Iterator[dict[str, Any]]:
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
    reach = Reach(MUTANTS) if options.reach else None
    from tests.sim import life, plots

    wanted = [(path.stem, plots.parse(path.read_text())) for path in options.kept or ()]
    wanted += [(str(number), life.plot(number)) for number in options.seed or ()]
    if not options.json:
        from tests.sim import story

        outcome = life.live(wanted[0][1])
        print(story.tell(outcome), flush=True)
        os._exit(1 if outcome.broken else 0)  # what was killed in the life is not worth finalising
    for name, plot in wanted:
        _tell(sys.stdout, name, *_lived(life, plot, reach))
    return 0


def _tell(answers: IO[str], life: str, broken: str, reached: Sequence[str] = ()) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"life": life, "broken": broken, "reached": reached}), file=answers, flush=True)


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


def _lived(life: Any, plot: Any, reach: Reach | None) -> tuple[str, list[str]]:
    """One life, in a fork: the first rule that broke, empty if none did; and the mutants that it reaches."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_fork(life, plot, reach, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if not text and status:
        return f"it did not end within {CPU_SECONDS} CPU seconds", []
    if text.startswith("["):
        return "", json.loads(text)
    return " ".join(text.split())[:160], []


def _in_fork(life: Any, plot: Any, reach: Reach | None, writing: int) -> NoReturn:
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
        os.write(writing, json.dumps(sorted(reach.reached) if reach else []).encode())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        os.write(writing, f"error: {type(error).__name__}: {error}".encode())
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
