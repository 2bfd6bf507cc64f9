"""Equal parts of Kubernetes objects, held once: of a thousand pods nearly everything is the same, and of an object that changed most of it.

What is returned here has parts in common with other objects, so nobody may change it in place.
"""

from typing import Any


class SharedValues:
    """Values that were met, of one list of objects. It is dropped after the list: it would keep what nobody has any more."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._parts: dict[tuple[Any, ...], Any] = {}  # kind and identities of what it consists of → the first

    def shared(self, value: Any) -> Any:
        """The value with its parts replaced by equal ones that were met before, or the equal value itself.

        Args:
            value: of JSON; its dicts and lists are changed, so nobody else may hold them yet.
        """
        if isinstance(value, str):
            return self._texts.setdefault(value, value)
        if isinstance(value, dict):
            for name, part in value.items():
                value[name] = self.shared(part)
            key = (dict, *value, *map(_identity, value.values()))
        elif isinstance(value, list):
            value[:] = map(self.shared, value)
            key = (list, *map(_identity, value))
        else:
            return value
        return self._parts.setdefault(key, value)


def _identity(value: Any) -> object:
    """The same for two values only if they are equal, once their parts are shared."""
    return (int, value) if type(value) is int else id(value)


def reused(former: Any, value: Any) -> Any:
    """The value with parts of a former one in place of those that are equal to them, or the former one if all of it is.

    Args:
        former: of JSON, and left as it is.
        value: of JSON; its dicts and lists are changed, so nobody else may hold them yet.
    """
    if type(former) is not type(value):
        return value
    if isinstance(value, dict):
        same = list(value) == list(former)
        for name, part in value.items():
            found = former.get(name)
            value[name] = reused(found, part)
            same = same and value[name] is found
        return former if same else value
    if isinstance(value, list):
        same = len(value) == len(former)
        for index, (found, part) in enumerate(zip(former, value, strict=False)):
            value[index] = reused(found, part)
            same = same and value[index] is found
        return former if same else value
    return former if former == value else value
