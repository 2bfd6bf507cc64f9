"""KafkaRebalances of one cluster: each pass lists their metadata, and reads one completely only when it has changed.

One can have two thousand moves, a few hundred kilobytes; the moves of ended ones are not needed any more.
"""

from dataclasses import dataclass, field
from typing import Final

from spindle.api import names
from spindle.api.enums import ProposalPhase
from spindle_operator.kinds import KAFKA_REBALANCE
from spindle_operator.kube import ByteBudget, Kube
from spindle_shared.api_answers import Json

# Open ones considered at a time; there is seldom more than one. A user may create thousands, and each costs memory, and time in every pass.
_MOST: Final = 32
_OVER: Final = frozenset(str(phase) for phase in ProposalPhase if phase.over)


@dataclass
class RebalanceCache:
    """Cache of KafkaRebalances that were read. It can be dropped at any time: then all are read again."""

    _read: dict[str, Json] = field(default_factory=dict)  # by UID
    _others: set[str] = field(
        default_factory=set
    )  # UIDs of those of other clusters: spec.cluster never changes

    async def look(
        self,
        kube: Kube,
        namespace: str,
        cluster: str,
        within: ByteBudget | None = None,
        *,
        listed: list[Json] | None = None,
    ) -> list[Json]:
        """The present KafkaRebalances of this cluster; the list of them counts against an allowance if one is given.

        Args:
            kube, namespace, cluster, within: where they are, and how much may be read.
            listed: their metadata, if it is known; None to list it.

        Raises:
            ApiError: they cannot be listed or read.
        """
        found: list[Json] = []
        if listed is None:
            listed = await kube.metadata(KAFKA_REBALANCE, namespace, within=within)
        uids = {str(each["metadata"]["uid"]) for each in listed}
        self._others &= uids
        self._read = {uid: known for uid, known in self._read.items() if uid in uids}
        still_open = 0
        # The oldest first: one in progress is never skipped for a newer one. The others follow when these have ended.
        for each in sorted(listed, key=_age):
            if still_open >= _MOST:
                break
            uid = str(each["metadata"]["uid"])
            label = (each["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER)
            if uid in self._others or label not in (None, cluster):
                continue
            known = self._read.get(uid)
            if known is None or known["metadata"]["resourceVersion"] != each["metadata"]["resourceVersion"]:
                known = await kube.find(KAFKA_REBALANCE, namespace, str(each["metadata"]["name"]))
            if known is None:
                continue
            if (known.get("spec") or {}).get("cluster") != cluster:
                self._others.add(uid)
                continue
            self._read[uid] = _short(known)
            found.append(self._read[uid])
            still_open += not _is_over(known)
        return found


def _short(obj: Json) -> Json:
    """Without unused fields."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if not _is_over(obj):
        return {**obj, "metadata": meta}
    return {**obj, "metadata": meta, "spec": {**obj["spec"], "moves": []}}


def _is_over(obj: Json) -> bool:
    return (obj.get("status") or {}).get("phase") in _OVER


def _age(obj: Json) -> tuple[str, str]:
    return str(obj["metadata"].get("creationTimestamp") or ""), str(obj["metadata"]["name"])
