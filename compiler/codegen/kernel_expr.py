"""Expressions of the loop IR as LLVM instructions."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.loops import Apply, Cast, Const, Expr, Index, Load, Name, Select, walk_expr
from ...ir.types import DType
from .kernel_builder import FunctionBuilder, Value, literal, memory_type
from .kernel_convert import convert, from_memory, to_memory
from .kernel_index import Int, emit_dim
from .kernel_scalar import emit_apply
from .kernel_scope import BufferRef, LocalVar, Scope

# Arithmetic is exactly what the program says, rounding by rounding: with products fused into sums, a*a - b*b would not
# be 0 where a == b.  Only the sum of a vectorised reduction may be taken in another order, and take products in.
REDUCTION = "reassoc nsz contract"
PRODUCT = "contract"


@dataclass
class ExprEmitter:
    """Emits expressions into `f`; `reduced` names the local whose reduction is being emitted, if any."""

    f: FunctionBuilder

    def emit(self, node: Expr, scope: Scope, reduced: str | None = None) -> Value:
        if isinstance(node, Const):
            return literal(node.value, node.dtype)
        if isinstance(node, Index):
            return Value(self.integer(node, scope).text, DType.i64)
        if isinstance(node, Name):
            return self._name(node, scope)
        if isinstance(node, Load):
            return self._load(node, scope)
        if isinstance(node, Cast):
            return convert(self.f, self.emit(node.value, scope, reduced), node.dtype)
        if isinstance(node, Select):
            return self._select(node, scope, reduced)
        return self._apply(node, scope, reduced)

    def integer(self, node: Expr, scope: Scope) -> Int:
        """An i64 with what is known about it."""
        if isinstance(node, Index):
            return emit_dim(self.f, node.dim, self._symbols(node, scope))
        if isinstance(node, Const):
            return Int(literal(node.value, DType.i64).text, node.value >= 0, int(node.value))
        if isinstance(node, Name) and node.name not in scope.values:
            return scope.ints[node.name]
        return Int(convert(self.f, self.emit(node, scope), DType.i64).text)

    def _symbols(self, node: Index, scope: Scope) -> dict[str, Int]:
        found = {}
        for name in node.dim.symbols:
            if name in scope.ints:
                found[name] = scope.ints[name]
            else:
                found[name] = Int(convert(self.f, self.named(name, scope), DType.i64).text)
        return found

    def _name(self, node: Name, scope: Scope) -> Value:
        if node.name in scope.values:
            return self.named(node.name, scope)
        return Value(scope.ints[node.name].text, DType.i64)

    def named(self, name: str, scope: Scope) -> Value:
        value = scope.values[name]
        if isinstance(value, LocalVar):
            like = Value("", value.dtype)
            return self.f.value(f"load {like.type}, ptr {value.pointer}", value.dtype)
        return value

    def _apply(self, node: Apply, scope: Scope, reduced: str | None) -> Value:
        sums = reduced is not None and any(isinstance(a, Name) and a.name == reduced for a in node.args)
        args = tuple(self._term(a, scope) if sums else self.emit(a, scope, reduced) for a in node.args)
        result = emit_apply(self.f, node.fn, args, node.dtype, REDUCTION if sums else "")
        # Comparisons aside, a function whose operands and result differ in type means the result converted.
        return result if result.dtype is node.dtype else convert(self.f, result, node.dtype)

    def _term(self, node: Expr, scope: Scope) -> Value:
        """What a reduction adds up."""
        if not (isinstance(node, Apply) and node.fn in ("mul", "square")):
            return self.emit(node, scope)
        args = tuple(self.emit(a, scope) for a in node.args)
        return emit_apply(self.f, node.fn, args, node.dtype, PRODUCT)

    def address(self, buffer: BufferRef, index: Expr, scope: Scope) -> str:
        offset = self.integer(index, scope)
        return self.f.let(
            f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {buffer.pointer}, i64 {offset.text}", "p"
        )

    def _load(self, node: Load, scope: Scope) -> Value:
        buffer = scope.buffers[node.buffer]
        pointer = self.address(buffer, node.index, scope)
        loaded = self.f.let(
            f"load {memory_type(buffer.dtype)}, ptr {pointer}, align {buffer.dtype.bytes}{access(buffer, scope)}"
        )
        value = from_memory(self.f, loaded, buffer.dtype)
        return value if node.dtype is buffer.dtype else convert(self.f, value, node.dtype)

    def store(self, name: str, index: Expr, value: Value, scope: Scope) -> None:
        buffer = scope.buffers[name]
        stored = to_memory(self.f, convert(self.f, value, buffer.dtype))
        pointer = self.address(buffer, index, scope)
        self.f.line(f"store {stored}, ptr {pointer}, align {buffer.dtype.bytes}{access(buffer, scope)}")

    def _select(self, node: Select, scope: Scope, reduced: str | None) -> Value:
        condition = convert(self.f, self.emit(node.condition, scope, reduced), DType.bool)
        if condition.text in ("true", "false"):
            return self.emit(node.a if condition.text == "true" else node.b, scope, reduced)
        # A load that may run whether it is chosen or not needs no branch (LLVM's vectoriser fails on some of those).
        if not any(_may_be_absent(e, scope) for arm in (node.a, node.b) for e in walk_expr(arm)):
            a, b = self.emit(node.a, scope, reduced), self.emit(node.b, scope, reduced)
            return self.f.value(f"select i1 {condition.text}, {a.typed}, {b.typed}", node.dtype)
        return self._guarded(condition, node, scope, reduced)

    def _guarded(self, condition: Value, node: Select, scope: Scope, reduced: str | None) -> Value:
        """Arms with loads run only where they are chosen; LLVM makes masked loads of them when it vectorises."""
        f = self.f
        yes, no, end = f.name("yes"), f.name("no"), f.name("end")
        f.branch(condition.text, yes, no)
        f.start(yes)
        a = self.emit(node.a, scope, reduced)
        from_yes = f.block
        f.jump(end)
        f.start(no)
        b = self.emit(node.b, scope, reduced)
        from_no = f.block
        f.jump(end)
        f.start(end)
        return f.value(f"phi {a.type} [ {a.text}, %{from_yes} ], [ {b.text}, %{from_no} ]", node.dtype)


def access(buffer: BufferRef, scope: Scope) -> str:
    """Metadata of a load or store: what it cannot overlap, and the loops whose iterations it is independent in.

    Memory allocated inside a loop is used by every iteration of it, so that only loops inside the allocation count.
    """
    groups = [loop.group for loop in scope.loops[buffer.depth :] if loop.group is not None]
    text = f", !alias.scope {buffer.alias}, !noalias {buffer.noalias}"
    if len(groups) == 1:
        text += f", !llvm.access.group {groups[0]}"
    elif groups:
        text += ", !llvm.access.group !{" + ", ".join(groups) + "}"
    return text


def _may_be_absent(node: Expr, scope: Scope) -> bool:
    """Is it a load of an element that some call's buffer may not have?"""
    if not isinstance(node, Load):
        return False
    at = node.index
    return not (isinstance(at, Index) and at.dim.is_const and 0 <= at.dim.value < scope.buffers[node.buffer].certain)
