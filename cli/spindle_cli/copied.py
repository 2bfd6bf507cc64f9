"""Commands that a message offers to copy. They name the namespace and the context that the present command line names."""

from shlex import quote
from typing import ClassVar


class Typed:
    """The present command line.

    Attributes:
        namespace: its option ``--namespace``; None if it has none.
        context: its option ``--context``; None for the kubeconfig's current one.
    """

    context: ClassVar[str | None] = None
    namespace: ClassVar[str | None] = None


def remember(namespace: str | None) -> str | None:
    """Callback of the option ``--namespace``."""
    Typed.namespace = namespace
    return namespace


def command(words: str) -> str:
    """A command of spindle or kubectl with the options that it needs to act in the same place as the present one."""
    return in_namespace(words, Typed.namespace)


def in_namespace(words: str, namespace: str | None) -> str:
    """A command with the options that it needs to act in this namespace of the same Kubernetes; None omits the namespace."""
    chosen = {"-n": namespace, "--context": Typed.context}
    return " ".join([words, *(f"{option} {quote(value)}" for option, value in chosen.items() if value)])
