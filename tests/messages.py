"""Message templates of the code, found in its syntax trees, and whether they can produce a text that a page of the manual quotes."""

import ast
import errno
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
_CODE: Final = ("core", "shared", "operator", "agent", "rebalance", "cli")
# Prose for the reference pages, which no event and no status shows.
_PROSE: Final = ("core/spindle/reasons", "core/spindle/api")
_MOST: Final = 64  # variants of one message, by the conditional parts that it has
_WORD: Final = re.compile(r"[A-Za-z]{2,}")
_FEW: Final = 3  # placeholders of a template with less than two words
# What a placeholder may stand for without a template of its own: a name, or a list of names and numbers with their units.
_NAME: Final = re.compile(r"[\w./:@%$<>'()+-]+")
_OBJECT: Final = re.compile(r"(?=\S*[\dA-Z-])\S+")  # a name that is no word
_ERRORS: Final = frozenset(map(os.strerror, errno.errorcode))
_ITEM: Final = re.compile(r"…|\([A-Z]\w+\)|(?=\S*[\d…/])\S+|and|of|more|GB|MB|KB|TB")

_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
Local = dict[str, list[ast.IfExp]]  # variables that are one of two texts
Template = tuple[str | None, ...]  # fixed parts, and None for each placeholder


@cache
def templates() -> tuple[Template, ...]:
    """All texts of the code that a message can consist of."""
    found = set()
    for part in _CODE:
        for path in sorted((ROOT / part).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(_PROSE):
                for text, local in _texts(ast.parse(path.read_text())):
                    for variant in _variants(text, local):
                        # What the last placeholder stands for may be empty; then the full stop before it is the last one.
                        found |= {
                            _joined(variant),
                            _joined(variant[:-1] if variant[-1:] == (None,) else variant),
                        }
    return tuple(sorted((each for each in found if _words(each) or _punctuates(each)), key=str))


def _punctuates(template: Template) -> bool:
    """Whether a template without words divides a message by more than spaces: ``{} ({}): {}``."""
    fixed = [part for part in template if part is not None]
    return bool(fixed) and all(" " in part and part.strip() for part in fixed)


@cache
def _single_words() -> frozenset[str]:
    return frozenset(each[0] for each in templates() if len(each) == 1 and each[0] and " " not in each[0])


def _words(template: Template) -> int:
    return sum(len(_WORD.findall(part)) for part in template if part is not None)


def _texts(tree: ast.Module) -> Iterator[tuple[ast.expr, Local]]:
    """Strings that are values (docstrings are statements), with the variables of their function that stand for one of several texts."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, _FUNCTION))):
        local = _local(scope)
        for node in ast.walk(scope):
            text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if (text or isinstance(node, ast.JoinedStr | ast.BinOp)) and id(node) not in docs:
                assert isinstance(node, ast.expr)
                yield node, local


def _local(scope: ast.AST) -> Local:
    found: Local = defaultdict(list)
    if isinstance(scope, _FUNCTION):
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
                found[ast.unparse(node.targets[0])].append(node.value)
    return found


def _variants(node: ast.expr, local: Local) -> Iterable[Template]:
    """What a text can be: each branch of a condition in it is a variant."""
    match node:
        case ast.Constant(value=str(value)):
            return [(value,)]
        case ast.JoinedStr(values=values):
            return _chained([_variants(value, local) for value in values])
        case ast.FormattedValue(value=value):
            return _variants(value, local)
        case ast.IfExp(body=body, orelse=orelse):
            return [*_variants(body, local), *_variants(orelse, local)]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _chained([_variants(left, local), _variants(right, local)])
        case ast.Name(id=name) if name in local:
            return [variant for value in local[name] for variant in _variants(value, {})]
    return [(None,)]


def _chained(parts: list[Iterable[Template]]) -> list[Template]:
    chained: list[Template] = []
    for number, each in enumerate(product(*parts)):
        if number >= _MOST:
            return [tuple(p for part in parts for p in next(iter(part)))]
        chained.append(tuple(p for part in each for p in part))
    return chained


def _joined(template: Template) -> Template:
    """Neighbouring fixed parts become one, with single spaces; spaces at both ends and the last full stop go."""
    joined: list[str | None] = []
    for part in template:
        if part is not None and joined and joined[-1] is not None:
            joined[-1] += part
        elif part is not None or not joined or joined[-1] is not None:
            joined.append(part)
    parts = [part if part is None else re.sub(r"\s+", " ", part) for part in joined]
    if parts and parts[0] is not None:
        parts[0] = parts[0].lstrip()
    if parts and parts[-1] is not None:
        parts[-1] = parts[-1].rstrip(" .:")
    return tuple(part for part in parts if part != "")


def in_code(text: str) -> bool:
    """Whether the code can say a text: a template fits all of it, and names, numbers or other templates fit its placeholders.

    Several sentences may come from several templates. ``…`` stands for further items of a list.
    """
    text = text.strip().rstrip(".:")
    if _NAME.fullmatch(text) or _is_list(text) or _fits(text):
        return True
    return any(
        in_code(text[: end.start() + 1]) and in_code(text[end.end() :])
        for end in re.finditer(r"[.:…] (?=\S)", text)
    )


@cache
def _fits(text: str) -> bool:
    """Whether one template fits all of a text.

    A template with less than two words says little: no single word, unless the code has it, may stand for one of its placeholders.
    """
    for template in templates():
        if not all(part in text for part in template if part is not None):
            continue
        weak = _words(template) < 2
        if weak and not 0 < template.count(None) <= _FEW:
            continue
        for values in _split(text, template):
            if (all(values) or not weak) and all(
                _fills(value, weak=weak) for value in values if value != text
            ):
                return True
    return False


def _fills(value: str, *, weak: bool) -> bool:
    if not weak:
        return in_code(value)
    listed = _is_list(value) and any(character.isdigit() for character in value)
    return bool(_OBJECT.fullmatch(value)) or value in _single_words() or listed or _fits(value)


def _is_list(text: str) -> bool:
    """Names and errors of the system with commas between them; or names and numbers, where each word is next to a number (``5 replicas``)."""
    if all(_NAME.fullmatch(item) or item in _ERRORS for item in text.split(", ")):
        return True
    items = text.replace(",", "").split()
    number = [False, *(item.isdigit() for item in items), False]
    return all(_ITEM.fullmatch(item) or number[at] or number[at + 2] for at, item in enumerate(items))


def _split(text: str, template: Template) -> Iterator[tuple[str, ...]]:
    """All ways to divide a text into the fixed parts of a template; yields what is left for the placeholders."""
    if not template:
        if not text:
            yield ()
        return
    first, rest = template[0], template[1:]
    if first is not None:
        if text.startswith(first):
            yield from _split(text.removeprefix(first), rest)
        return
    if not rest:
        yield (text,)
        return
    following = rest[0]
    assert following is not None
    place = text.find(following)
    while place >= 0:
        for more in _split(text[place:], rest):
            yield (text[:place], *more)
        place = text.find(following, place + 1)


@dataclass(frozen=True)
class Quote:
    """A message on a page, with the number of its line."""

    line: int
    text: str
