"""The executor of moves: which moves run, which may start, and which settings must be restored afterwards.

Pure: :func:`execute` takes one observation of Kafka and a journal, and returns the next journal and intents. The journal is written
before its intents are executed, so that after a crash at any point another operator continues from it.
"""

from typing import Final

from spindle.moves.execute import cleanup, execute
from spindle.moves.intents import ConfigureIntent, ElectIntent, Intent, PlaceReplicasIntent, ReassignIntent
from spindle.moves.journal import DroppedReplica, Journal, JournalError, LeadershipOverride, Move, SavedConfig
from spindle.moves.limits import Limits
from spindle.moves.outcome import Progress, RefusedMove, StepResult

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("between_dirs", "journal", "journal_record", "rate_control")

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
