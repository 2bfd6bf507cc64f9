"""How fresh the facts behind an action must be: unknown is not absent (rule 8, `docs/safety.md`), and what a cache has may be neither true nor present.

A pass may read from a cache that watches keep. It then writes nothing: if its plan has an action, or a status to write, all is listed anew, Kafka is asked
again, and the pass is planned again on that. The executor checks each action against this table and refuses it otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spindle.model import actions
from spindle.model.actions import Action


@dataclass(frozen=True)
class FactsRead:
    """When and how the facts of a pass were read.

    Attributes:
        listed: whether all of them were read from the API server in this pass; False if any came from a cache.
        at: when the first of them was read, in seconds of the monotonic clock.
    """

    listed: bool
    at: float


@dataclass(frozen=True)
class Freshness:
    """What an action requires.

    Attributes:
        listed: it needs facts that were read from the API server, not from a cache.
        seconds: their largest age.
        rules: of docs/safety.md, which decide on these facts whether the action may be planned.
    """

    listed: bool
    seconds: float
    rules: tuple[int, ...] = ()


def _guarded(*rules: int) -> Freshness:
    """Of an action on which a rule, or data, depends: a look takes up to a minute when brokers hang, the actions of a pass two more."""
    return Freshness(listed=True, seconds=200.0, rules=rules)


_ROUTINE: Final = Freshness(
    listed=True, seconds=240.0
)  # guarded by its preconditions, and undone by the next pass

TABLE: Final[Mapping[type[Action], Freshness]] = {
    actions.Create: _guarded(7, 13, 14, 15),  # a pod that is created starts a broker
    actions.TryPod: _ROUTINE,  # it changes nothing
    actions.Apply: _guarded(1, 5, 7, 13, 15, 16),  # the record of a broker says what may be formatted
    actions.Patch: _guarded(1, 5, 7, 11, 13, 16),  # clearances, finalizers and claims' volumes
    actions.SetPodCondition: _guarded(2),  # PodDisruptionBudgets count it
    actions.Delete: _guarded(2, 5, 9, 11, 14, 16),
    actions.MarkDown: _guarded(2, 5, 9),
    actions.Evict: _guarded(2, 5, 9),
    actions.IssueCa: _guarded(12),  # create-only, but a second CA would lock all clients out
    actions.TurnCa: _guarded(12),
    actions.IssueCertificate: _ROUTINE,
    actions.CopyCertificates: _ROUTINE,
    actions.ReloadCertificates: _ROUTINE,
    actions.CertifyAgents: _ROUTINE,
    actions.KeepPassword: _ROUTINE,
    actions.SetPassword: _ROUTINE,
    actions.AlterUser: _ROUTINE,
    actions.GrantAdmin: _ROUTINE,
    actions.GrantRebalance: _ROUTINE,
    actions.ElectPreferred: _ROUTINE,
    actions.ElectUnclean: _guarded(1),
    actions.PlaceReplicas: _guarded(1, 4, 6),
    actions.Reassign: _guarded(1, 3, 4, 5, 6),
    actions.SetConfigs: _guarded(10),
    actions.RaiseFeatures: _guarded(),  # Kafka lowers none again
    actions.UnregisterBroker: _guarded(5, 14),
    actions.AddVoter: _guarded(2, 13),
    actions.RemoveVoter: _guarded(2, 13),
    actions.Tune: _ROUTINE,
    actions.CreateTopic: _ROUTINE,
    actions.AddPartitions: _ROUTINE,  # Kafka checks the number of those that there are
    actions.ConfigureTopic: _guarded(10),
    actions.DeleteTopic: _guarded(11),
    actions.TrimPartitions: _guarded(11),
}


def too_old(action: Action, look: FactsRead, now: float) -> str | None:
    """Why the facts are not fresh enough for an action; None if they are. An action that is not in the table is refused.

    Args:
        action: to be carried out.
        look: what the plan was made from.
        now: seconds of the monotonic clock.
    """
    needed = TABLE.get(type(action))
    if needed is None:
        return "no entry says how fresh its facts must be"
    if needed.listed and not look.listed:
        return "it was planned from a cache"
    age = now - look.at
    if age > needed.seconds:
        return f"what it was planned from was read {age:.0f} s ago, and may be {needed.seconds:.0f} s old"
    return None
