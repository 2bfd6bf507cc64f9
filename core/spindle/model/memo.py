"""A cache of pure functions of plain data, keyed by the content of the arguments."""

import hashlib
import marshal
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

MemoResult = TypeVar("MemoResult")
_DIGEST_BYTES: Final = 20
# Version 2 writes equal data as equal bytes; later versions also write object identity.
_MARSHAL_VERSION: Final = 2


def by_content(most: int) -> Callable[[Callable[..., MemoResult]], Callable[..., MemoResult]]:
    """Cache up to this many results of a pure function whose positional arguments are JSON-like data.

    All callers share a result: do not modify it. None is not cached.

    The key is a digest of the exact content of the arguments, including types and order, so ``1`` and ``True`` differ. Calls with
    objects of other classes are computed each time. A full cache is cleared.
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

        remembered.cache_clear = known.clear  # type: ignore[attr-defined]  # as of functools.lru_cache; for tests
        return remembered

    return remember
