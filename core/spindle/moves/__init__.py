"""The one executor of moves: what is in motion, what may begin, and what has to be put back afterwards.

Pure: :func:`execute` reads one look at Kafka and a journal, and answers with the next journal and with intents. The journal is
written before what it records is done, so an operator that dies anywhere is followed by one that goes on from it.
"""

from spindle.moves.execute import cleanup, execute
from spindle.moves.intents import ConfigureIntent, ElectIntent, Intent, PlaceReplicasIntent, ReassignIntent
from spindle.moves.journal import DroppedReplica, Journal, JournalError, LeadershipOverride, Move, SavedConfig
from spindle.moves.limits import Limits
from spindle.moves.outcome import Progress, RefusedMove, StepResult

__all__ = [
    "ConfigureIntent",
    "DroppedReplica",
    "ElectIntent",
    "Intent",
    "Journal",
    "JournalError",
    "LeadershipOverride",
    "Limits",
    "Move",
    "PlaceReplicasIntent",
    "Progress",
    "ReassignIntent",
    "RefusedMove",
    "SavedConfig",
    "StepResult",
    "cleanup",
    "execute",
]
