"""``python -m tests.sim``: prints one run, or runs many on all cores.

The hash seed derives from the run's seed, so a run needs a process that was started with it. There are few hash seeds
(`HASH_SEEDS`): one process is started for each and imports the common modules, and each run is a fork of it. A run that does not end is
stopped by its number of events (`tests.sim.kernel.MOST_EVENTS`), or, within one event, by its CPU time, and has failed.
"""

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HASH_SEEDS = 4
MOST_CPU = 600.0  # seconds of CPU time that a run may take
PROGRESS = 30.0  # seconds between two lines of progress
STORIES = 3  # failed runs of a batch whose story is printed
KINDS = ("KafkaBroker", "KafkaCluster", "KafkaRebalance", "KafkaTopic", "KafkaUser")


def hash_seed(seed: int) -> str:
    """PYTHONHASHSEED of a run."""
    return str(1 + seed % HASH_SEEDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="tests.sim", description="Simulated runs of a cluster with Spindle."
    )
    parser.add_argument("--seed", type=int, help="print this run")
    parser.add_argument("--kept", type=Path, help="print a kept run")
    parser.add_argument("--lives", type=int, default=0, help="number of runs")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="run as many as this time allows, and at least --lives"
    )
    parser.add_argument("--start", type=int, default=1, help="first seed")
    parser.add_argument(
        "--without",
        type=Path,
        help="a file of seeds that are skipped, one per line; # starts a comment with the reason",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", action="store_true", help="reduce the failing run first")
    parser.add_argument("--brief", action="store_true", help="cut long lines")
    parser.add_argument(
        "--mark", action="store_true", help="print the story with full precision, for comparison"
    )
    parser.add_argument("--watches", action="store_true", help="the operators read from watches")
    parser.add_argument(
        "--replicas", action="store_true", help="people change the replication factors of topics"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return serve(watches=options.watches, replicas=options.replicas)
    if options.seed is not None or options.kept is not None:
        return tell(options, sys.argv[1:] if arguments is None else list(arguments))
    return run_many(options)


def known(file: Path) -> dict[int, str]:
    """Seeds of runs that are known to fail, each with the reason why it is not fixed."""
    lines = (line.partition("#") for line in file.read_text().splitlines())
    return {int(seed): why.strip() for seed, _, why in lines if seed.strip()}


def tell(options: argparse.Namespace, arguments: list[str]) -> int:
    """One run."""
    seed = options.seed if options.seed is not None else json.loads(options.kept.read_text())["seed"]
    if os.environ.get("PYTHONHASHSEED") != hash_seed(seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed(seed)}
        return subprocess.call([sys.executable, "-m", "tests.sim", *arguments], env=environment)
    from tests.sim import life, plots, shrink, story

    plot = plots.parse(options.kept.read_text()) if options.kept is not None else life.plot(seed)
    if options.watches:
        plot = life.watched(plot)
    if options.replicas:
        plot = life.edited(plot)
    outcome = life.live(plot)
    if options.shrink and outcome.broken:
        rule = outcome.broken[0][:4]
        plot = shrink.shrunk(plot, lambda p: any(b.startswith(rule) for b in life.live(p).broken))
        outcome = life.live(plot)
        print(plots.render(plot, why=outcome.broken[:1]))
    print(story.mark(outcome) if options.mark else story.tell(outcome, long=not options.brief))
    sys.stdout.flush()
    os._exit(1 if outcome.broken else 0)  # killed tasks of the run need no finalisation


def serve(*, watches: bool, replicas: bool = False) -> int:
    """In a process of one hash seed: execute the runs whose seeds it reads, each in a fork."""
    from tests.sim import fields, life, story

    for kind in KINDS:
        fields.list_maps(kind)  # parsing the definitions takes longer than Kafka in many runs
    gc.collect()
    gc.freeze()  # forks share data that does not change any more
    for word in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _one(life, story, int(word), writing, watches=watches, replicas=replicas)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
        print(text or _ended(int(word), status), flush=True)
    return 0


def _ended(seed: int, status: int) -> str:
    """The result of a run whose process reported none."""
    endless = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGVTALRM
    text = f"endless: not complete after {MOST_CPU:.0f} s of CPU time" if endless else "its process ended"
    cpu = MOST_CPU if endless else 0.0
    return json.dumps({"seed": seed, "broken": [text], "cpu": cpu, "reasons": []})


def _one(
    life: Any, story: Any, seed: int, writing: int, *, watches: bool = False, replicas: bool = False
) -> None:
    """In the fork: execute one run and report the result."""
    began = time.process_time()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # only results go to the reader of our output
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU)  # kills it, whichever thread loops
    try:
        plot = life.watched(life.plot(seed)) if watches else life.plot(seed)
        outcome = life.live(life.edited(plot) if replicas else plot)
        told = {
            "seed": seed,
            "broken": outcome.broken,
            "passes": outcome.passes,
            "ended": outcome.ended_at,
            "reasons": sorted(outcome.seen_reasons),
        }
        if outcome.broken:
            told["story"] = story.tell(outcome, long=False)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"error of the simulation: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        told = {"seed": seed, "broken": [text], "reasons": []}
    told["cpu"] = time.process_time() - began
    with os.fdopen(writing, "w") as pipe:
        json.dump(told, pipe)
    os._exit(0)


class Workers:
    """This many processes, each with a hash seed."""

    def __init__(self, jobs: int, *, watches: bool = False, replicas: bool = False) -> None:
        self._jobs = jobs
        self._more = [*(["--watches"] if watches else []), *(["--replicas"] if replicas else [])]

    def run(self, seeds: Iterable[int], until: float, least: int) -> Iterable[dict[str, Any]]:
        """Execute runs; yields each result when it is available.

        Args:
            seeds: in order.
            until: time of the monotonic clock after which no run starts, once ``least`` have started.
        """
        import select

        queue, begun = iter(seeds), 0
        idle: dict[str, list[subprocess.Popen[str]]] = {}
        busy: dict[int, tuple[str, subprocess.Popen[str]]] = {}
        count = 0

        def begin() -> bool:
            nonlocal begun, count
            if begun >= least and time.monotonic() > until:
                return False
            seed = next(queue, None)
            if seed is None:
                return False
            begun += 1
            wanted = hash_seed(seed)
            if idle.get(wanted):
                process = idle[wanted].pop()
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.sim", "--serve", *self._more],
                    env={**os.environ, "PYTHONHASHSEED": wanted}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                count += 1
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            busy[process.stdout.fileno()] = wanted, process
            return True

        going = all(begin() for _ in range(self._jobs))
        while busy:
            ready, _, _ = select.select(list(busy), [], [])
            for descriptor in ready:
                wanted, process = busy.pop(descriptor)
                assert process.stdout is not None
                answer = process.stdout.readline()
                if answer:
                    idle.setdefault(wanted, []).append(process)
                    yield json.loads(answer)
                else:
                    yield {"seed": -1, "broken": ["a worker ended"], "cpu": 0.0, "reasons": []}
                if going:
                    going = begin()
        for processes in idle.values():
            for process in processes:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()


def run_many(options: argparse.Namespace) -> int:
    """Many runs: runs per second, and the seeds that failed."""
    began = time.monotonic()
    left_out = known(options.without) if options.without is not None else {}
    last = options.start + options.lives if not options.minutes else options.start + 10_000_000
    until = began + 60.0 * options.minutes
    failed: dict[int, list[str]] = {}
    done, cpu, slowest = 0, 0.0, (0.0, 0)
    reasons: set[str] = set()
    told_at = began
    seeds = (seed for seed in range(options.start, last) if seed not in left_out)
    least = max(0, options.lives - sum(options.start <= seed < last for seed in left_out))
    for told in Workers(options.jobs, watches=options.watches, replicas=options.replicas).run(
        seeds, until, least
    ):
        done += 1
        cpu += told["cpu"]
        slowest = max(slowest, (told["cpu"], told["seed"]))
        reasons |= set(told["reasons"])
        if told["broken"]:
            failed[told["seed"]] = told["broken"]
            print(f"run {told['seed']} failed: {told['broken'][0][:220]}", flush=True)
            if len(failed) <= STORIES and "story" in told:
                print(told["story"], flush=True)
        if (now := time.monotonic()) - told_at >= PROGRESS:
            told_at = now
            print(
                f"… {done} runs in {now - began:.0f} s, {done / (now - began):.2f} per second, {len(failed)} failed",
                flush=True,
            )
    took = time.monotonic() - began
    print(
        f"{done} runs in {took:.0f} s ({done / max(took, 0.001):.2f} runs per second, {cpu / max(done, 1):.2f} CPU seconds each, {slowest[0]:.1f} in run {slowest[1]}); "
        f"{len(reasons)} reasons to wait were seen; {len(failed)} failed"
        + (f": seeds {', '.join(map(str, sorted(failed)))}" if failed else "")
    )
    for seed, why in sorted(left_out.items()):
        if options.start <= seed < last:
            print(f"run {seed} was skipped: {why}")
    if failed:
        again = next(iter(sorted(failed)))
        print(
            f"print a failed run again, or a smaller one that breaks the same rule: python -m tests.sim --seed {again} [--shrink]"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
