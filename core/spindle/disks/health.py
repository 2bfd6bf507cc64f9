"""One verdict on each disk, merged from the reports of the node's agent, Kafka, and preflight."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spindle.api.enums import BAD_VERDICTS, DiskVerdict
from spindle.model import disk_facts
from spindle.model.view import STORAGE_ERROR

UNKNOWN: Final = "Unknown"
KAFKA_OFFLINE: Final = "LogDirOffline"
OFFLINE_FULL: Final = "OfflineFull"
FULL: Final = "Full"
OTHER_FILE_SYSTEM: Final = "OtherFileSystem"

AGENT: Final = "agent"
KAFKA: Final = "kafka"
PREFLIGHT: Final = "preflight"
NOBODY: Final = "nobody"

_OFFLINE: Final = {
    KAFKA_OFFLINE: "Kafka took the log dir offline.",
    OFFLINE_FULL: "Kafka took the log dir offline; the disk is full.",
}
_BACK: Final = "Kafka has the log dir online again; the agent has not reported it yet."
_GOOD: Final = frozenset(DiskVerdict) - BAD_VERDICTS
_BY_PREFLIGHT: Final[Mapping[str, tuple[DiskVerdict, str]]] = {
    disk_facts.OURS: (DiskVerdict.HEALTHY, ""),
    disk_facts.BLANK: (DiskVerdict.HEALTHY, ""),
    disk_facts.FOREIGN: (DiskVerdict.SWAPPED, "ForeignContent"),
    disk_facts.NOT_MOUNTED: (DiskVerdict.MISSING, "NotMounted"),
    disk_facts.DEAD: (DiskVerdict.FAILED, "ProbeError"),
    disk_facts.READONLY: (DiskVerdict.FAILED, "ReadOnly"),
}


@dataclass(frozen=True, kw_only=True)
class Health:
    """Health of a disk, as far as known.

    Attributes:
        verdict: a `DiskVerdict`, or `UNKNOWN`.
        reason: CamelCase; empty for a healthy disk.
        since: seconds since the epoch when the verdict was reached, by the operator's clock; `now` if it is new.
        source: who reported it: `AGENT`, `KAFKA`, `PREFLIGHT` or `NOBODY`.
        fresh: whether the report is current: the last report of an agent that is silent permits nothing new, by "unknown is not absent"
            (`docs/safety.md`, rule 8).
        content: ``ours``, ``blank``, ``foreign`` or ``unknown``; None if the disk was not inspected.
        fs_uuid: UUID of the mounted file system; None if the disk was not inspected.
        stalled: whether a write of the agent has been pending for long, and still was at its last report.
    """

    verdict: str
    reason: str = ""
    message: str = ""
    since: float
    stalled: bool = False
    source: str = NOBODY
    fresh: bool = False
    content: str | None = None
    fs_uuid: str | None = None

    @property
    def bad(self) -> bool:
        """Whether the disk cannot serve its replicas, as far as is known."""
        return self.verdict in BAD_VERDICTS

    @property
    def surely_bad(self) -> bool:
        """Bad according to a current report: Spindle may act on it."""
        return self.bad and self.fresh

    @property
    def well(self) -> bool:
        """Not bad according to a current report; this includes suspect and slow disks."""
        return self.fresh and self.verdict in _GOOD

    @property
    def blank(self) -> bool:
        """Whether the disk holds nothing, according to a current report."""
        return self.fresh and self.content == disk_facts.BLANK


@dataclass(frozen=True, kw_only=True)
class AgentReport:
    """The agent's report on one disk.

    Attributes:
        since: seconds since the epoch, by the operator's clock.
        fresh: whether the agent is alive, so that the report is current.
        stalled: whether a write has been pending for long.
    """

    verdict: str
    since: float
    reason: str = ""
    message: str = ""
    content: str | None = None
    fs_uuid: str | None = None
    fresh: bool = False
    stalled: bool = False

    @classmethod
    def parse(cls, entry: Mapping[str, Any], since: float, *, fresh: bool) -> "AgentReport":
        """Parse an entry of ``status.observed.disks``."""
        return cls(
            verdict=str(entry.get("verdict") or UNKNOWN),
            since=since,
            reason=str(entry.get("reason") or ""),
            message=str(entry.get("message") or ""),
            content=entry.get("content") or None,
            fs_uuid=entry.get("fsUuid") or None,
            fresh=fresh,
            stalled=entry.get("stalled") is True,
        )

    @property
    def good(self) -> bool:
        """Whether the disk can serve its replicas according to the agent."""
        return self.verdict in _GOOD


def health(
    *,
    now: float,
    mode: str,
    said: AgentReport | None,
    kafka_error: int | None,
    inspected: Mapping[str, Any] | None = None,
    bad_since: float | None = None,
) -> Health:
    """Merge the reports on a disk.

    The agent's report counts while the agent is alive. Kafka's report that the log dir is offline overrides a good verdict; its report
    that the log dir is online overrides an agent's verdict that came from an earlier report of Kafka. Both also count without an agent.

    Args:
        now: seconds since the epoch.
        mode: of the disk; for a placeholder or an absent disk, Kafka's report only reflects its configuration.
        said: by the agent; None if no agent checks the disk.
        kafka_error: of the log dir, 0 for none; None if the broker could not be asked, or does not know the dir.
        inspected: the disk's entry in preflight's report, while Kafka has not run since; otherwise None.
        bad_since: since when the disk is recorded as bad, in seconds since the epoch; it is the age of Kafka's report.
    """
    kafka = kafka_error if mode == disk_facts.ACTIVE else None
    made = _merged(now, said, kafka, inspected, now if bad_since is None else bad_since)
    if said is not None and (said.fresh or not inspected):
        if (made.content, made.fs_uuid) == (said.content, said.fs_uuid):
            return made
        return replace(made, content=said.content, fs_uuid=said.fs_uuid)
    if inspected:
        return replace(made, content=_content(inspected), fs_uuid=inspected.get("fsUuid") or None)
    return made


def _merged(
    now: float,
    said: AgentReport | None,
    kafka: int | None,
    inspected: Mapping[str, Any] | None,
    bad_since: float,
) -> Health:
    live = said is not None and said.fresh
    if kafka == STORAGE_ERROR and not (said is not None and live and not said.good):
        full = said is not None and live and said.reason == FULL
        reason = OFFLINE_FULL if full else KAFKA_OFFLINE
        return Health(
            verdict=DiskVerdict.FAILED,
            reason=reason,
            message=_OFFLINE[reason],
            since=bad_since,
            source=KAFKA,
            fresh=True,
        )
    if said is not None and kafka == 0 and said.reason in _OFFLINE:
        return Health(
            verdict=DiskVerdict.SUSPECT,
            reason=said.reason,
            message=_BACK,
            since=now,
            source=KAFKA,
            fresh=True,
        )
    if said is not None and (live or not said.good):
        return _by_agent(said, fresh=live)
    if kafka == 0:
        return Health(verdict=DiskVerdict.HEALTHY, since=now, source=KAFKA, fresh=True)
    if inspected and inspected.get("state") in _BY_PREFLIGHT:
        verdict, reason = _BY_PREFLIGHT[str(inspected["state"])]
        since = now if verdict is DiskVerdict.HEALTHY else bad_since
        problem = str(inspected.get("problem") or "")
        return Health(
            verdict=verdict, reason=reason, message=problem, since=since, source=PREFLIGHT, fresh=True
        )
    if said is not None:
        return _by_agent(said, fresh=False)
    return Health(
        verdict=UNKNOWN,
        message="The health of the disk is unknown: there is no report from the agent, Kafka or preflight.",
        since=now,
    )


def _by_agent(said: AgentReport, *, fresh: bool) -> Health:
    return Health(
        verdict=said.verdict,
        reason=said.reason,
        message=said.message,
        since=said.since,
        stalled=said.stalled,
        source=AGENT,
        fresh=fresh,
        content=said.content,
        fs_uuid=said.fs_uuid,
    )


def _content(inspected: Mapping[str, Any]) -> str:
    state = str(inspected.get("state"))
    return state if state in (disk_facts.OURS, disk_facts.BLANK, disk_facts.FOREIGN) else disk_facts.UNKNOWN
