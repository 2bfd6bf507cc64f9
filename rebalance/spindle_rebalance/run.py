"""One run: for each cluster read its history and state, plan, report, propose. Clusters are processed in parallel."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from spindle.api import names
from spindle.balance.picture import Picture
from spindle.balance.propose import Result, held_by
from spindle_rebalance import look, plan, publish, report
from spindle_rebalance.errors import UNEXPECTED, RunError
from spindle_rebalance.findings import Findings, too_little_history
from spindle_rebalance.kube import Kube
from spindle_rebalance.options import Options, Target
from spindle_rebalance.outcome import Outcome
from spindle_rebalance.steps import step

log = logging.getLogger(__name__)

_AT_ONCE: Final = 4  # clusters
_STALE: Final = 60.0  # seconds after which the state is read again before planning

Ranges = dict[int, tuple[int, int]]


def _unasked(*_: object) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Spark:
    """The work done in Spark, which is started on first use.

    Attributes:
        ranges: returns the offsets of a cluster's samples of the last days; empty if there are none.
        study: computes the findings from these samples; the state gives the cluster id and the time.
        roll_up: writes hourly features below a URL and returns the new hours.
    """

    ranges: Callable[[Target, float], Ranges]
    study: Callable[[Target, Ranges, Picture], Findings]
    roll_up: Callable[[Target, str, Picture], Sequence[str]] = _unasked


@dataclass
class Run:
    """One run for all clusters in its options."""

    options: Options
    spark: Spark
    kube: Callable[[], Kube]
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._kube: Kube | None = None

    def all(self) -> list[Outcome]:
        """Outcomes of all clusters, in the order of the options."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(self.options.targets)), "cluster") as pool:
            return list(pool.map(self.one, self.options.targets))

    def one(self, target: Target) -> Outcome:
        """Outcome of one cluster; its errors are reported and do not affect other clusters."""
        try:
            picture, found = self._one(target)
            return self._keep(target, picture, found)
        except RunError as error:
            log.error("%s: %s: %s", target.name, error.reason, error)  # noqa: TRY400 - the sentence says it all
            return Outcome(target.name, error.reason, str(error), failed=True)
        except Exception as error:
            log.exception("%s: the run failed", target.name)
            return Outcome(target.name, UNEXPECTED, f"{type(error).__name__}: {error}", failed=True)

    def _one(self, target: Target) -> tuple[Picture, Outcome]:
        picture, taken = self._look(target), self.clock()
        findings, why_none, studied_ms = self._history(target, picture)
        if self.options.replay is None and self.clock() - taken > _STALE:
            picture = self._look(target)
        self._record(target, picture, findings, studied_ms)
        with step(target.name, "plan") as counts:
            reading, result = plan.plan(picture, findings)
            counts.update(_counts(result))
        for note in reading.notes:
            log.info("%s: %s", target.name, note)
        if result.proposal is not None and self._publishes:
            # Reading and planning take time; a proposal that a user approved in the meantime must be respected.
            approved = look.under_way(self._api(), target.namespace, target.cluster)
            result = held_by(approved, result.plan) if approved else result
        page = report.render(picture, reading, result, findings)
        reported = self._report(target, page)
        message = f"{result.message} {why_none}".strip()
        if result.proposal is None:
            return picture, Outcome(target.name, result.reason, message)
        if not self._publishes:
            told = f"{message} Nothing was published."
            return picture, Outcome(target.name, result.reason, told, proposal=result.proposal.name)
        with step(target.name, "publish") as counts:
            did = publish.publish(
                self._api(), target.namespace, result.proposal, target.report_map if reported else ""
            )
            counts["proposal"] = result.proposal.name
        return picture, Outcome(
            target.name, result.reason, f"{did}: {message}", proposal=result.proposal.name
        )

    def _keep(self, target: Target, picture: Picture, found: Outcome) -> Outcome:
        """The roll-up, if configured, comes last: a proposal must not wait for a store or fail because of it."""
        url, topics = self.options.rollup, {p.topic for p in picture.kafka.partitions or ()}
        if url is None or not self._publishes or names.TOPIC_SAMPLES not in topics:
            return found
        place = f"{url.rstrip('/')}/{target.namespace}/{target.cluster}/{picture.kafka.cluster_id}"
        try:
            with step(target.name, "roll-up") as counts:
                hours = self.spark.roll_up(target, place, picture)
                counts["hours"] = len(hours)
        except RunError as error:
            log.error("%s: %s: %s", target.name, error.reason, error)  # noqa: TRY400 - the sentence says it all
            return replace(
                found,
                reason=error.reason,
                message=f"{error} The plan itself succeeded: {found.message}",
                failed=True,
            )
        return found

    @property
    def _publishes(self) -> bool:
        return self.options.publish and self.options.replay is None

    def _api(self) -> Kube:
        with self._lock:
            if self._kube is None:
                self._kube = self.kube()
            return self._kube

    def _look(self, target: Target) -> Picture:
        with step(target.name, "look") as counts:
            if self.options.replay is not None:
                found = look.read(_folder(self.options.replay, target))
            else:
                timeout, now = self.options.kafka_timeout, int(self.clock() * 1000)
                found = look.take(self._api(), target.namespace, target.cluster, target.access, timeout, now)
            brokers = (found.kafka.brokers or {}).values()
            counts["brokers"] = len(brokers)
            counts["silent"] = sum(b.log_dirs is None for b in brokers)
            counts["partitions"] = len(found.kafka.partitions or ())
        return found

    def _history(self, target: Target, picture: Picture) -> tuple[Findings | None, str, int]:
        """Findings from the samples; else the reason why there are none, as a sentence: then planning uses the current sizes.

        Also the time of the state for which they were evaluated, in ms since 1970, from the record if there is one.
        """
        topics = {p.topic for p in picture.kafka.partitions or ()}
        ranges: Ranges
        if self.options.replay is not None:
            folder = _folder(self.options.replay, target)
            ranges = {}
            if (folder / look.OFFSETS).exists():
                ranges, at_ms = look.read_offsets(folder)
                picture = replace(picture, at_ms=at_ms)  # this time decides which replica samples count
        elif names.TOPIC_SAMPLES not in topics:
            why = f"The topic {names.TOPIC_SAMPLES} does not exist, so growth and slow disks are unknown."
            return None, why, picture.at_ms
        else:
            ranges = self.spark.ranges(target, self.options.days)
        if not ranges:
            why = f"The topic {names.TOPIC_SAMPLES} has no samples yet, so growth and slow disks are unknown."
            return None, why, picture.at_ms
        with step(target.name, "history") as counts:
            found = self.spark.study(target, ranges, picture)
            counts["records"], counts["rows"] = found.read.records, found.read.rows
            counts["poison"], counts["disks"] = found.read.poisoned, len(found.disks)
            counts["slow"] = sum(d.slow is not None for d in found.disks)
        for each in found.read.poison:
            log.warning(
                "%s: partition %d, offset %d: %s", target.name, each.partition, each.offset, each.reason
            )
        if found.read.rows == 0:
            return found, "No sample was usable, so growth and slow disks are unknown.", picture.at_ms
        why = ""
        if found.disks and not any(d.told for d in found.disks):
            why = f"No forecast of when disks will be full: {too_little_history(found.disks)}."
        return found, why, picture.at_ms

    def _record(self, target: Target, picture: Picture, findings: Findings | None, studied_ms: int) -> None:
        if self.options.record is not None:
            folder = _folder(self.options.record, target)
            look.write(folder, picture)
            look.write_offsets(folder, findings.read.offsets if findings is not None else {}, studied_ms)

    def _report(self, target: Target, page: str) -> bool:
        """Write the report where requested. Returns whether it is in a ConfigMap."""
        if self.options.report is not None:
            self.options.report.mkdir(parents=True, exist_ok=True)
            path = self.options.report / f"{target.namespace}.{target.cluster}.html"
            path.write_text(page, encoding="utf-8")
            log.info("%s: report: %s", target.name, path)
        if not target.report_map or not self._publishes:
            return False
        return publish.publish_report(self._api(), target.namespace, target.cluster, target.report_map, page)


def _folder(base: Path, target: Target) -> Path:
    return base / f"{target.namespace}.{target.cluster}"


def _counts(result: Result) -> dict[str, Any]:
    if result.plan is None:
        return {"result": result.reason}
    return {
        "result": result.reason,
        "moves": len(result.plan.replica),
        "bytes": int(result.plan.bytes.sum()),
        "waves": len(result.plan.peak),
        "unreached": len(result.plan.unreached),
    }
