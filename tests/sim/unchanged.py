"""A run in which what operators read from watches cannot be changed in place: those objects have parts in common.

python -m tests.sim.unchanged SEED

The exit code is 0 if nothing broke and nothing was changed; then it prints how many objects were read.
"""

import copy
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from spindle_operator.kinds import Kind
from spindle_operator.mirror import Mirror
from spindle_shared.api_answers import Json
from tests.sim import life

_changed: list[str] = []
_read = 0


def _refuse(*_: object, **__: object) -> NoReturn:
    _changed.append("".join(traceback.format_stack()[:-1]))
    raise AssertionError("an object that others hold was changed in place")


class _Dict(dict[str, Any]):
    """Copies of it are ordinary ones."""

    __setitem__ = __delitem__ = __ior__ = pop = popitem = clear = update = setdefault = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {name: copy.deepcopy(value, memo) for name, value in self.items()}


class _List(list[Any]):
    __setitem__ = __delitem__ = __iadd__ = append = extend = insert = pop = remove = clear = sort = (
        reverse
    ) = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return _Dict((name, _frozen(each)) for name, each in value.items())
    return _List(map(_frozen, value)) if isinstance(value, list) else value


class _Mirror(Mirror):
    async def items(self, *args: Any, **more: Any) -> list[Json] | None:
        global _read  # noqa: PLW0603 - of this process
        found = await super().items(*args, **more)
        _read += len(found or ())
        return None if found is None else [_frozen(each) for each in found]

    def same(self, kind: Kind, namespace: str | None, *, labelled: bool) -> Callable[[Json], Json]:
        held = super().same(kind, namespace, labelled=labelled)
        return lambda listed: _frozen(held(listed))


def main() -> None:
    """One run."""
    loop = sys.modules["spindle_operator.loop"]
    loop.Mirror = _Mirror  # type: ignore[attr-defined]
    outcome = life.live(life.watched(life.plot(int(sys.argv[1]))))
    for line in (*outcome.broken, *_changed[:3]):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{_read} objects read\n")
    sys.stdout.flush()
    os._exit(1 if outcome.broken or _changed else 0)


if __name__ == "__main__":
    main()
