"""In which lives does a mutant answer anything else than the code? Only those can notice it, and one run of a life tells it for all mutants."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any, Final

from tests.mutants.weakened import ALONE, Mutant, Weaken, put

_RAISED: Final = object()


class Reach:
    """Which mutants would have answered otherwise so far, in this process."""

    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self.reached: set[str] = set()
        for mutant in mutants:
            for target, weaken in ((mutant.target, mutant.weaken), *mutant.also):
                put(target, partial(self._watched, mutant.name, weaken))

    def _watched(self, mutant: str, weaken: Weaken, original: Any) -> Any:
        weakened = weaken(original)
        if not callable(original):
            self.reached.add(mutant)  # a constant: nobody can tell whether it was asked
            return original
        acts = inspect.iscoroutinefunction(original) or (
            "builder" in inspect.signature(original).parameters and not getattr(weakened, ALONE, False)
        )

        @wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if mutant in self.reached:
                return original(*args, **kwargs)
            if acts:  # what takes its place does more than answer, and must not do it twice
                self.reached.add(mutant)
                return original(*args, **kwargs)
            args = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
            answer = original(*args, **kwargs)
            if _answer(weakened, args, kwargs) != answer:
                self.reached.add(mutant)
            return answer

        return watched


def _answer(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - whatever it is, it is not the answer of the code
        return _RAISED
