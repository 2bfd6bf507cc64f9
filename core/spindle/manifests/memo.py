"""Results of pure functions of plain data, kept by the content of what they were called with."""

import hashlib
import marshal
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

MemoResult = TypeVar("MemoResult", str, bool)
_DIGEST_BYTES: Final = 20
# Version 2 writes equal data as equal bytes; later versions also write which parts are one object in memory.
_MARSHAL_VERSION: Final = 2


def by_content(most: int) -> Callable[[Callable[..., MemoResult]], Callable[..., MemoResult]]:
    """Remember at most so many results of a pure function whose positional arguments are JSON-like data.

    The key is a digest of the arguments' exact content, types and order included, so ``1`` and ``True`` differ. What cannot be written
    down so (objects of other classes) is computed each time. When the memory is full it begins anew.
    """

    def remember(function: Callable[..., MemoResult]) -> Callable[..., MemoResult]:
        known: dict[bytes, MemoResult] = {}

        @wraps(function)
        def remembered(*arguments: object) -> MemoResult:
            try:
                content = marshal.dumps(cast("Any", arguments), _MARSHAL_VERSION)
            except ValueError:
                return function(*arguments)
            key = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
            found = known.get(key)
            if found is None:
                found = function(*arguments)
                if len(known) >= most:
                    known.clear()
                known[key] = found
            return found

        return remembered

    return remember
