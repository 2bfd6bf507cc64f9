"""Gives memory that was freed back to the kernel: glibc keeps most of it, one heap for each thread that decoded something.

With a hundred brokers, that is a third of what the operator's observation of Kafka leaves behind. On another C library nothing happens.
"""

import contextlib
import ctypes
from typing import Final

_ARENA_MAX: Final = -8  # M_ARENA_MAX of malloc.h


def use_one_heap() -> None:
    """All threads that start from now on allocate from one heap; they decode one at a time anyway."""
    # AttributeError: it is not glibc.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return free pages to the kernel. Source: malloc_trim(3)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
