"""Text to loops: the host programs, and the tensors of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .dims import Dim
from .loops import BindSymbol, CheckEqual, CheckFact, Copy, HostProgram, HostStep, HostTensor, Launch, Ref, Result
from .parser_tree import Node
from .parser_values import Scope, to_dim, to_fact, to_string
from .types import DType

Item = tuple[str, list[Any]]


def _pair(name: str) -> Callable[[object, list[Any]], Item]:
    return lambda _, c: (name, c)


class HostTree:
    """Rules of host programs as (rule, children) pairs."""

    weight, const, host = _pair("weight"), _pair("const"), _pair("host")
    output, inherit, bind, equal = _pair("output"), _pair("inherit"), _pair("bind"), _pair("equal")
    fact_step, launch, copy = _pair("fact"), _pair("launch"), _pair("copy")
    arena, scratch, results = _pair("arena"), _pair("scratch"), _pair("results")

    def tensors(self, c: list[Any]) -> list[Any]:
        return c

    def tensor(self, c: list[Any]) -> Any:
        return c

    def refs(self, c: list[Any]) -> list[Any]:
        return c

    def ref(self, c: list[Any]) -> list[Any]:
        return c

    def result_name(self, c: list[Any]) -> Result:
        return Result(str(c[0]))

    def result_tuple(self, c: list[Any]) -> Result:
        return Result(tuple(r for r in c if isinstance(r, Result)))


def hosts(
    items: Sequence[Item], scope: Scope
) -> tuple[tuple[HostTensor, ...], tuple[HostTensor, ...], HostProgram | None, tuple[HostProgram, ...]]:
    """Weights, constants, the program that runs at load, and those of the functions."""
    weights = tuple(_tensor([None, *c], scope) for kind, c in items if kind == "weight")
    consts = tuple(_tensor([None, *c], scope) for kind, c in items if kind == "const")
    made = [(str(c[0]), _Host(scope).program(c)) for kind, c in items if kind == "host"]
    load = next((h for keyword, h in made if keyword == "load"), None)
    return weights, consts, load, tuple(h for keyword, h in made if keyword == "host")


def _tensor(c: list[Any], scope: Scope) -> HostTensor:
    inout, name, dtype, _, dims, _ = c
    sizes = tuple(to_dim(d, scope, binding=True) for d in dims or [])
    return HostTensor(str(name), DType(str(dtype)), sizes, inout is not None)


class _Host:
    """Builds one host program from its statements, which may stand in any order."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def program(self, c: list[Any]) -> HostProgram:
        _, name, params, _, *statements, _ = c
        by_kind: dict[str, list[list[Any]]] = {}
        for kind, children in statements:
            by_kind.setdefault(kind, []).append(children)
        tensors = tuple(_tensor(t, self.scope) for t in params or [])
        outputs = tuple(_tensor(t[0], self.scope) for t in by_kind.get("output", []))
        several, results = self._results(by_kind)
        return HostProgram(
            str(name)[1:],
            tensors,
            outputs,
            results,
            tuple(str(n) for names in by_kind.get("inherit", []) for n in names),
            tuple(self._step(k, x) for k, x in statements if k in ("bind", "equal", "fact")),
            tuple(
                self._launch(x) if k == "launch" else self._copy(x) for k, x in statements if k in ("launch", "copy")
            ),
            self._only(by_kind, "arena"),
            self._only(by_kind, "scratch"),
            not several,
        )

    def _results(self, by_kind: dict[str, list[list[Any]]]) -> tuple[bool, tuple[Result, ...]]:
        (c,) = by_kind.get("results", [[None]])
        return c[0] is not None and not isinstance(c[0], Result), tuple(r for r in c if isinstance(r, Result))

    def _only(self, by_kind: dict[str, list[list[Any]]], kind: str) -> Dim:
        found = by_kind.get(kind)
        return self.dim(found[0][0]) if found else Dim.of(0)

    def dim(self, node: Node) -> Dim:
        return to_dim(node, self.scope, binding=True)

    def _step(self, kind: str, c: list[Any]) -> HostStep:
        *values, origin = c
        text = to_string(Node("string", str(origin), origin, origin), self.scope)
        if kind == "bind":
            symbol, numerator, divisor = values
            return BindSymbol(str(symbol), self.dim(numerator), self.dim(divisor), text)
        if kind == "equal":
            return CheckEqual(self.dim(values[0]), self.dim(values[1]), text)
        return CheckFact(to_fact(values[0], self.scope, binding=True), text)

    def _launch(self, c: list[Any]) -> Launch:
        kernel, refs, sizes = c
        return Launch(str(kernel)[1:], tuple(map(self._ref, refs or [])), tuple(map(self.dim, sizes or [])))

    def _copy(self, c: list[Any]) -> Copy:
        source, target, size = c
        return Copy(self._ref(source), self._ref(target), self.dim(size))

    def _ref(self, c: list[Any]) -> Ref:
        space, name, offset = c
        return Ref(str(space), str(name)) if offset is None else Ref(str(space), str(name), self.dim(offset))
