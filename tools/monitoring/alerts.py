"""The alerts: expressions, and the runbook of each."""

from dataclasses import dataclass
from typing import Final

from spindle.metrics import table
from spindle.metrics.table import BROKER, CLUSTER, DISK
from tools.monitoring.promql import labels, of, placed, unless_maintained, unless_paused

CRITICAL: Final = "critical"
WARNING: Final = "warning"
# Stands for the operator's namespace, which the chart knows.
NAMESPACE: Final = "@namespace@"

_CLUSTER: Final = "{{ $labels.namespace }}/{{ $labels.kafka_cluster }}"
_PLACE: Final = "{{ $labels.device }} on node {{ $labels.node }}, rack {{ $labels.rack }}"
_DISK: Final = f"{{{{ $labels.disk }}}} of {{{{ $labels.broker }}}} ({_PLACE})"
_BAD_DISK: Final = (
    f"{{{{ with $labels.disk }}}}; {{{{ . }}}} of {{{{ $labels.broker }}}} has failed ({_PLACE}){{{{ end }}}}"
)
# Reasons of status.waiting that have an alert of their own.
STALLED: Final = ("CrashLooping", "ProgressDeadlineExceeded")
SPREAD: Final = ("RackSpreadViolated",)
LAST_RESORT: Final = ("ProducersBlocked", "ProducersThrottled", "RetentionReduced")
LAST_RESORT_LEVELS: Final = ("ReduceRetention", "DeleteRecords", "ThrottleProducers", "BlockProducers")
AT_RISK: Final = "LastReplicaAtRisk"
BAD_STATES: Final = ("Failed", "Evacuating")
HIGHEST: Final = "blockProducers"  # the highest threshold that agents forecast


@dataclass(frozen=True)
class Alert:
    """One alert with its runbook.

    Attributes:
        severity: of its label; may be a template.
        lasts: for how long the expression must hold (``for``).
        summary: of the annotation; a template.
        means, spindle_does, you_do, sleep: of the runbook, in Markdown.
    """

    name: str
    severity: str
    lasts: str
    expression: str
    summary: str
    means: str
    spindle_does: str
    you_do: str
    sleep: str


def _any_of(names: tuple[str, ...]) -> str:
    return "|".join(names)


def _with_bad_disks(trouble: str) -> str:
    """A cluster's series once for each of its failed disks, with the disk's labels; as it is if no disk has failed."""
    bad = placed(of(table.DISK_STATE, DISK, f'state=~"{_any_of(BAD_STATES)}"'))
    return f"(\n{trouble}\n) * on {labels(CLUSTER)} group_right ()\n(\n{bad}\n)\nor on {labels(CLUSTER)} (\n{trouble}\n)"


def _not_healing() -> str:
    failed = of(table.DISK_STATE, (*DISK, "state"), 'state="Failed"')
    evacuating = of(table.DISK_STATE, (*DISK, "state"), 'state="Evacuating"')
    held = of(table.WAITING, DISK, 'disk!="", urgency!="none"')
    stuck = f"({failed}\nor\n{evacuating} and on {labels(DISK)} {held})"
    return unless_maintained(unless_paused(placed(stuck)))


def _waiting() -> str:
    covered = _any_of((*STALLED, *SPREAD, *LAST_RESORT))
    selector = f'urgency=~"page|ticket", reason!~"{covered}"'
    waits = of(table.WAITING, (*DISK, "action", "object", "reason", "urgency"), selector)
    held = unless_maintained(unless_paused(f"({waits})"))
    return (
        f"(\n{placed(f'({held})')}\n)\nor on {labels((*CLUSTER, 'action', 'object', 'reason'))} (\n{held}\n)"
    )


def _lagging() -> str:
    behind = f"{of(table.VOTER_CAUGHT_UP, (*CLUSTER, 'controller'))} == 0"
    unheard = f"{of(table.CONTROLLERS, CLUSTER)} unless on {labels(CLUSTER)} {table.VOTER_CAUGHT_UP.name}"
    return f"{behind}\nor\n({unheard})"


def _silent() -> str:
    silent = f"{of(table.AGENT_UP, (*BROKER, 'node'))} == 0"
    rack = of(table.BROKER_INFO, (*BROKER, "rack"))
    return unless_maintained(f"({silent})\n+ on {labels(BROKER)} group_left (rack) {rack}")


def _operator_down() -> str:
    leader = f'absent({table.LEADER.name}{{namespace="{NAMESPACE}"}} == 1)'
    return f"{leader}\nor\n{of(table.RECONCILE_AGE, CLUSTER)} > 600"


def _at_risk() -> str:
    return of(table.CONDITION, CLUSTER, f'condition="DataAtRisk", status="True", reason="{AT_RISK}"')


def _full_soon() -> str:
    left = (
        f'min by {labels(DISK)} ({table.AGENT_THRESHOLD.name}{{threshold="{HIGHEST}", bound="at"}}) < 86400'
    )
    return placed(f"({left})")


ALERTS: Final = (
    Alert(
        "SpindleDiskNotHealing",
        WARNING,
        "15m",
        _not_healing(),
        f"{_CLUSTER}: {_DISK} has failed and is not being evacuated",
        "A disk cannot serve its replicas, and nothing moves: it has been `Failed` for a quarter of an hour, or it is `Evacuating` and an entry of `status.waiting` "
        "about it needs somebody.",
        "It has taken the disk out of use. It evacuates it by itself as soon as what it waits for is there; see [a disk failed](../disk-failed.md).",
        "`spindle status CLUSTER`, and do what the entry about this disk says. Most often there is no space in the rack, too many disks failed at once "
        "(`CorrelatedDiskFailures`), or the broker does not answer.",
        "If no other alert of this cluster fires: the partitions have their other replicas. Another failure would be one too many for some of them.",
    ),
    Alert(
        "SpindleDataAtRisk",
        CRITICAL,
        "1m",
        _with_bad_disks(_at_risk()),
        f"{_CLUSTER}: the last in-sync replica of partitions is on a failed disk or node{_BAD_DISK}",
        "Partitions have their last in-sync replica on a disk or node that failed. If it stays lost, acknowledged records are lost. `DataAtRisk` names the partitions.",
        "It formats nothing that may hold the last copy, and moves what can still be read. It elects an older replica only if you accept the loss.",
        "Bring the disk or the node back; do not wipe or replace it. If it is surely lost, accept the loss with the token in the message: "
        "[disks that are lost](../disk-failed.md).",
        "Not before you know whether the disk or node can be brought back.",
    ),
    Alert(
        "SpindleOfflinePartitions",
        CRITICAL,
        "1m",
        _with_bad_disks(f"{of(table.OFFLINE_PARTITIONS, CLUSTER)} > 0"),
        f"{_CLUSTER}: {{{{ $value }}}} partitions have no leader{_BAD_DISK}",
        "Clients can neither read nor write these partitions. The condition `Available` names them.",
        "It restarts brokers that Kafka has fenced, and brokers whose disk works again. It elects no replica that lacks acknowledged records.",
        "Bring back the brokers, nodes or disks with in-sync replicas: `kubectl get skb,pods -o wide`, then `status.waiting`.",
        "No: clients are affected.",
    ),
    Alert(
        "SpindleUnderMinIsr",
        CRITICAL,
        "5m",
        _with_bad_disks(f"{of(table.UNDER_MIN_ISR, CLUSTER)} > 0"),
        f"{_CLUSTER}: {{{{ $value }}}} partitions have fewer in-sync replicas than min.insync.replicas{_BAD_DISK}",
        "Kafka rejects writes with `acks=all` to these partitions. The condition `DataAtRisk` names them.",
        "It restarts no broker that these partitions need, brings disks back that work again, and re-replicates what was on failed disks.",
        "Bring the missing brokers and disks back: `kubectl get skb` and `status.waiting` say which. If a broker is only far behind, it catches up by itself.",
        "No: producers are affected. Yes, if the number falls and the brokers that catch up are in sync within minutes.",
    ),
    Alert(
        "SpindleDiskFullWithinADay",
        WARNING,
        "30m",
        _full_soon(),
        f"{_CLUSTER}: {_DISK} will reach its highest threshold ({HIGHEST}) in {{{{ $value | humanizeDuration }}}}",
        f"By the [forecast](../forecast.md) the usage of the disk reaches the threshold `{HIGHEST}` (95 % by default) within a day. Moves that are in progress are included.",
        "It moves replicas to disks with more space, from the level `Move` on, and keeps new ones off the disk: [full disks](../full-disks.md).",
        "Look whether the other disks of the rack have space (`kubectl get skb`, column FULLEST). If they have none: add disks or brokers, shorten retention, or delete topics.",
        "If other disks of the rack have space: Spindle evens it out.",
    ),
    Alert(
        "SpindleLastResortActive",
        CRITICAL,
        "1m",
        placed(of(table.DISK_LEVEL, (*DISK, "level"), f'level=~"{_any_of(LAST_RESORT_LEVELS)}"')),
        f"{_CLUSTER}: {_DISK} is so full that Spindle applies {{{{ $labels.level }}}}",
        "A disk is nearly full, moves did not help in time, and a [last-resort action](../full-disks.md#last-resort-actions) that you enabled is in effect: shorter retention, "
        "deleted records, throttled or blocked producers.",
        "It keeps moving what it can, and restores every setting as soon as the disk is below the level.",
        "Free space now: delete data, add disks or brokers, stop the producer that fills the disk. `status.waiting` names the topics and settings.",
        "No while producers are blocked or records are deleted.",
    ),
    Alert(
        "SpindleRackSpreadViolated",
        WARNING,
        "1h",
        unless_paused(of(table.WAITING, (*CLUSTER, "object", "reason"), f'reason="{_any_of(SPREAD)}"')),
        f"{_CLUSTER}: partitions are on fewer racks than they could be",
        "If one rack fails, partitions lose more replicas than they had to. The condition `RacksSatisfied` names them.",
        "It spreads replicas that its own healing put on too few racks, once no disk is failed and a disk in another rack has space.",
        "`spindle rebalance run`, and approve the proposal. If a rack has no space, add disks there.",
        "Yes. It matters only when a rack fails.",
    ),
    Alert(
        "SpindleRolloutStalled",
        WARNING,
        "5m",
        unless_paused(
            unless_maintained(
                of(table.WAITING, (*BROKER, "object", "reason"), f'reason=~"{_any_of(STALLED)}"')
            )
        ),
        f"{_CLUSTER}: {{{{ $labels.object }}}} did not come back from a restart ({{{{ $labels.reason }}}})",
        "A restarted broker or controller is not back in sync in time, or Kafka crashes in it again and again. The rolling restart has stopped.",
        "It restarts no further node for a change. It continues when the node is back, or when the spec is corrected.",
        "Read the entry in `status.waiting` and `kubectl logs POD --previous`. Correct or revert the change, or bring the node back: [rolling restarts](../rolling.md).",
        "If no other alert of this cluster fires: one node is down, and nothing else will be restarted.",
    ),
    Alert(
        "SpindleAgentSilent",
        WARNING,
        "10m",
        _silent(),
        f"{_CLUSTER}: no agent watches the disks of {{{{ $labels.broker }}}} (node {{{{ $labels.node }}}}, rack {{{{ $labels.rack }}}})",
        "The agent on the node of a broker does not renew its Lease. A hung disk there is not detected, a failed one only when Kafka accesses it.",
        "It does not act on the last report of that agent, and relies on what Kafka reports.",
        "`kubectl -n AGENTS get pods -o wide` on that node. If the node is off, see [a node is off](../nodes.md#a-node-is-off). A pod that stays `Terminating` hangs on a "
        "disk that does not answer: [the agent](../agent.md#a-hung-disk-and-the-agents-pod).",
        "Yes, if Kafka runs on that node.",
    ),
    Alert(
        "SpindleOperatorDown",
        CRITICAL,
        "5m",
        _operator_down(),
        "{{ with $labels.kafka_cluster }}No pass of {{ $labels.namespace }}/{{ . }} has ended for {{ $value | humanizeDuration }}"
        f"{{{{ else }}}}No Spindle operator leads in namespace {NAMESPACE}{{{{ end }}}}",
        "No operator works on the cluster: none runs, none gets the Lease, Prometheus does not reach it, or its passes do not end.",
        "Nothing. Kafka keeps running, agents keep probing and finish their moves. No disk is evacuated, no broker restarted.",
        "`kubectl -n NAMESPACE get pods,leases`, and the log of the operator's pods.",
        "Only if no other alert fires, and then not for long: nothing heals meanwhile.",
    ),
    Alert(
        "SpindleQuorumLagging",
        f"{{{{ if $labels.controller }}}}{WARNING}{{{{ else }}}}{CRITICAL}{{{{ end }}}}",
        "10m",
        _lagging(),
        f"{_CLUSTER}: {{{{ with $labels.controller }}}}{{{{ . }}}} lags behind the quorum{{{{ else }}}}Kafka reports no controller quorum{{{{ end }}}}",
        "A controller has not caught up with the metadata log, or (severity critical) Kafka reports no quorum at all: then no leader is elected and no topic changed.",
        "It replaces a controller whose disk is lost, one at a time, while a majority is in sync: [controllers](../controllers.md).",
        "`kubectl get pods -l spindle.dev/role=controller -o wide` and their logs; `status.quorum` of the KafkaCluster has each voter.",
        "With severity warning, if a majority keeps up (2 of 3, 3 of 5). Not with severity critical.",
    ),
    Alert(
        "SpindleWaitingTooLong",
        f'{{{{ if eq $labels.urgency "page" }}}}{CRITICAL}{{{{ else }}}}{WARNING}{{{{ end }}}}',
        "1h",
        _waiting(),
        f"{_CLUSTER}: {{{{ $labels.action }}}} of {{{{ $labels.object }}}} waits: {{{{ $labels.reason }}}}{{{{ with $labels.disk }}}} ({_PLACE}){{{{ end }}}}",
        "An entry of `status.waiting` needs somebody and has been there for an hour. The alert has its action, object and reason; reasons with an alert of their own are left out.",
        "It waits. It continues by itself as soon as what the entry says is done.",
        "Do what `unblockedBy` of the entry says: `spindle status CLUSTER`, or `spindle explain REASON`; [all reasons](reasons.md).",
        "With severity warning: the matter can wait for working hours.",
    ),
)
