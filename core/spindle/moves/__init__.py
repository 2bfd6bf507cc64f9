"""The one executor of moves: what is in motion, what may begin, and what has to be put back afterwards.

Pure: :func:`execute` reads one look at Kafka and a journal, and answers with the next journal and with intents. The journal is
written before what it records is done, so an operator that dies anywhere is followed by one that goes on from it.
"""

from spindle.moves.execute import cleanup, execute
from spindle.moves.intents import Configure, Elect, Intent, Place, Reassign
from spindle.moves.journal import Journal, JournalError, Move, Order, Setting, Shrunk
from spindle.moves.limits import Limits
from spindle.moves.outcome import Outcome, Progress, Refused

__all__ = [
    "Configure",
    "Elect",
    "Intent",
    "Journal",
    "JournalError",
    "Limits",
    "Move",
    "Order",
    "Outcome",
    "Place",
    "Progress",
    "Reassign",
    "Refused",
    "Setting",
    "Shrunk",
    "cleanup",
    "execute",
]
