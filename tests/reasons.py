"""Reasons that the code writes out, found in its syntax trees: the reference page and the simulated user know each of them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_CODE = ("core", "operator", "rebalance")
_TABLE = ROOT / "core/spindle/reasons"
_CAMEL = re.compile(r"(?=.*[a-z])[A-Z][A-Za-z]+")
_STATUSES = frozenset({"True", "False", "Unknown"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def reasons() -> set[str]:
    """Those of ``status.waiting``: in calls of `Waiting` and `Waiting.refused`, of all of core."""
    return {
        reason for path in (ROOT / "core").rglob("*.py") for reason in _reasons(ast.parse(path.read_text()))
    }


def _reasons(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        found: list[ast.expr] = []
        called = ast.unparse(call.func)
        if called == "Waiting":
            found = call.args[2:3]
        elif called == "Waiting.refused":
            found = [each.value for each in call.keywords if each.arg == "reason"]
        yield from (
            each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


@cache
def all_reasons() -> frozenset[str]:
    """Those of waits, conditions, events and restarts: every constant that reaches something named ``reason``."""
    return frozenset(_Code().reasons())


@dataclass
class _Module:
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)


class _Code:
    """All modules, searched for what reaches a parameter, a field or a key named ``reason``."""

    def __init__(self) -> None:
        self.modules: list[_Module] = []
        self.constants: dict[str, list[ast.expr]] = defaultdict(list)  # by name, of all modules
        self.parameters: dict[str, list[list[str]]] = defaultdict(list)  # of functions and classes, by name
        self.returns: dict[str, list[tuple[_Module, Function]]] = defaultdict(list)
        self.defaults: list[tuple[_Module, ast.expr]] = []
        for path in sorted(path for part in _CODE for path in (ROOT / part).rglob("*.py")):
            if _TABLE not in path.parents:
                self._read(_Module(ast.parse(path.read_text())))
        self.found: set[str] = set()
        self.sinks: set[tuple[str, str]] = set()  # a callable's name, and its parameter

    def _read(self, module: _Module) -> None:
        self.modules.append(module)
        for statement in module.tree.body:
            target: ast.expr | None = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
            value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(target, ast.Name) and value is not None:
                module.constants[target.id] = value
                self.constants[target.id].append(value)
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [
                    each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                ]
                self.parameters[node.name].append([name for name in names if name not in ("self", "cls")])
                self.returns[node.name].append((module, node))
            elif isinstance(node, ast.ClassDef):
                fields = [
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                ]
                self.parameters[node.name].append(fields)
                self.defaults += [
                    (module, each.value)
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "reason" and each.value
                ]

    def reasons(self) -> set[str]:
        """Repeat until no further parameter is found through which a reason is passed on."""
        for module, default in self.defaults:
            self._resolve(default, module, None, 0)
        while True:
            before = len(self.sinks), len(self.found)
            for module in self.modules:
                self._walk(module, module.tree, None)
            if (len(self.sinks), len(self.found)) == before:
                return self.found

    def _walk(self, module: _Module, node: ast.AST, function: Function | None) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            for value in self._written(child):
                self._resolve(value, module, function, 0)
            self._walk(module, child, inner)

    def _written(self, node: ast.AST) -> Iterator[ast.expr]:
        """The expressions of a node that are reasons."""
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rsplit(".", 1)[-1]
            yield from (
                each.value
                for each in node.keywords
                if each.arg == "reason" or (name, str(each.arg)) in self.sinks
            )
            for parameters in self.parameters.get(name, ()):
                for parameter, argument in zip(parameters, node.args, strict=False):
                    if isinstance(argument, ast.Starred):
                        if "reason" in parameters:
                            yield argument.value
                        break
                    if parameter == "reason" or (name, parameter) in self.sinks:
                        yield argument
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (
                value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "reason"
            )
        elif isinstance(node, ast.Tuple) and len(node.elts) in (3, 4):
            # The row of a condition: type (unless the callee knows it), status, reason, message.
            status = node.elts[-3]
            status = status.body if isinstance(status, ast.IfExp) else status
            if isinstance(status, ast.Constant) and (
                status.value in _STATUSES or isinstance(status.value, bool)
            ):
                yield node.elts[-2]

    def _resolve(self, value: ast.expr, module: _Module, function: Function | None, depth: int) -> None:
        if depth > 6:
            return
        if isinstance(value, ast.Constant):
            if isinstance(value.value, str) and _CAMEL.fullmatch(value.value):
                self.found.add(value.value)
        elif isinstance(value, ast.IfExp):
            self._resolve(value.body, module, function, depth + 1)
            self._resolve(value.orelse, module, function, depth + 1)
        elif isinstance(value, (ast.BoolOp, ast.Tuple)):
            for each in value.values if isinstance(value, ast.BoolOp) else value.elts:
                self._resolve(each, module, function, depth + 1)
        elif isinstance(value, ast.Name):
            self._name(value.id, module, function, depth)
        elif isinstance(value, ast.Attribute) and value.attr.isupper():
            for each in self.constants.get(value.attr, ()):
                self._resolve(each, module, None, depth + 1)
        elif isinstance(value, (ast.Subscript, ast.Call)):
            self._parts(value, module, function, depth)

    def _name(self, name: str, module: _Module, function: Function | None, depth: int) -> None:
        if function is not None:
            if any(each.arg == name for each in (*function.args.args, *function.args.kwonlyargs)):
                self.sinks.add((function.name, name))
                return
            if values := list(_assigned(function, name)):
                for value in values:
                    self._resolve(value, module, function, depth + 1)
                return
        for value in self._constant(name, module):
            self._resolve(value, module, None, depth + 1)

    def _constant(self, name: str, module: _Module) -> list[ast.expr]:
        """Its value in this module; of what may be imported, the values in all."""
        if name in module.constants:
            return [module.constants[name]]
        return [] if name.startswith("_") else self.constants.get(name, [])

    def _parts(
        self, value: ast.Subscript | ast.Call, module: _Module, function: Function | None, depth: int
    ) -> None:
        """Everything in a table that is looked up, or that a function of ours returns."""
        if isinstance(value, ast.Call):
            if not (isinstance(value.func, ast.Attribute) and value.func.attr == "get"):
                self._returned(ast.unparse(value.func).rsplit(".", 1)[-1], depth)
                return
            base = value.func.value
            for argument in value.args[1:]:
                self._resolve(argument, module, function, depth + 1)
        else:
            base = value.value
            while isinstance(base, ast.Subscript):
                base = base.value
        tables = [base]
        if isinstance(base, ast.Name):
            local = list(_assigned(function, base.id)) if function is not None else []
            tables = local or self._constant(base.id, module)
        for table in tables:
            for node in ast.walk(table):
                if isinstance(node, ast.Constant):
                    self._resolve(node, module, None, depth + 1)

    def _returned(self, name: str, depth: int) -> None:
        for module, function in self.returns.get(name, ()):
            for node in ast.walk(function):
                value = node.value if isinstance(node, ast.Return) else None
                named = isinstance(value, ast.Name) and value.id in module.constants
                if value is not None and (named or isinstance(value, (ast.Constant, ast.IfExp))):
                    self._resolve(value, module, None, depth + 1)


def _assigned(function: Function, name: str) -> Iterator[ast.expr]:
    """What a local variable of that name is assigned, also as one of several, also by a loop over a written list."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _unpacked(target, node.value, name)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield from _unpacked(node.target, node.value, name)
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, (ast.Tuple, ast.List)):
            for each in node.iter.elts:
                yield from _unpacked(node.target, each, name)


def _unpacked(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    elif isinstance(target, ast.Tuple):
        for at, each in enumerate(target.elts):
            if not (isinstance(each, ast.Name) and each.id == name):
                continue
            if isinstance(value, ast.Tuple):
                yield value.elts[at]
            elif isinstance(value, ast.IfExp):
                yield from _unpacked(target, value.body, name)
                yield from _unpacked(target, value.orelse, name)
            elif isinstance(value, ast.Subscript):
                yield value
