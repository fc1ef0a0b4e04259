"""Building LLVM IR text for kernels: functions, values, types, literals and the metadata shared by a module.

Values live in registers in their compute type: f16 and bf16 as `float` (rounded when they are stored or cast), bool as
`i1`; `Value.dtype` remembers what they stand for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...ir.rounding import converted
from ...ir.types import DType
from ..target import Target
from .names import symbol

_REGISTER = {"f64": "double", "f32": "float", "f16": "float", "bf16": "float", "bool": "i1", "u8": "i8"}
_MEMORY = {"f64": "double", "f32": "float", "f16": "half", "bf16": "i16", "bool": "i8", "u8": "i8"}


def register_type(dtype: DType) -> str:
    """LLVM type of a value in a register."""
    return _REGISTER.get(dtype.value, dtype.value)


def memory_type(dtype: DType) -> str:
    """LLVM type of an element in memory."""
    return _MEMORY.get(dtype.value, dtype.value)


@dataclass(frozen=True)
class Value:
    """An SSA value or a literal."""

    text: str
    dtype: DType

    @property
    def type(self) -> str:
        return register_type(self.dtype)

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"


def literal(value: bool | int | float, dtype: DType) -> Value:
    """A constant, rounded to its dtype; floats are spelt by their bits, since decimal ones must be exact."""
    if dtype.is_bool:
        return Value("true" if value else "false", dtype)
    if dtype.is_int:
        bits = int(value) & ((1 << dtype.bits) - 1)
        return Value(str(bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits), dtype)
    rounded = float(converted(value, dtype))
    return Value(f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}", dtype)


@dataclass
class ModuleBuilder:
    """What the functions of a module share: declarations, scalar math wanted, helper definitions, metadata."""

    target: Target
    declarations: set[str] = field(default_factory=set)
    math: set[tuple[str, str]] = field(default_factory=set)
    helpers: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)

    def meta(self, text: str, distinct: bool = False) -> str:
        """A metadata node; `{self}` in a distinct one stands for the node."""
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {'distinct ' if distinct else ''}{text.replace('{self}', name)}")
        return name


@dataclass
class FunctionBuilder:
    """Instructions of one function; `alloca` collects what belongs in the entry block."""

    module: ModuleBuilder
    lines: list[str] = field(default_factory=list)
    allocas: list[str] = field(default_factory=list)
    block: str = "start"
    _count: int = 0

    def name(self, hint: str = "t") -> str:
        self._count += 1
        return f"{symbol(hint)}.{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def let(self, text: str, hint: str = "t") -> str:
        name = f"%{self.name(hint)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def value(self, text: str, dtype: DType) -> Value:
        return Value(self.let(text), dtype)

    def alloca(self, type_: str, hint: str = "local", align: int = 0) -> str:
        name = f"%{self.name(hint)}"
        self.allocas.append(f"  {name} = alloca {type_}" + (f", align {align}" if align else ""))
        return name

    def start(self, label: str) -> None:
        """Opens a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str, suffix: str = "") -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{suffix}")

    def intrinsic(self, name: str, result: str, arguments: Iterable[str], flags: str = "") -> str:
        """Calls `@llvm.<name>`; arguments are typed texts; returns the result's name (empty for void)."""
        args = list(arguments)
        types = ", ".join(a.split(" ", 1)[0] if not a.startswith("<") else a[: a.index(">") + 1] for a in args)
        self.module.declarations.add(f"declare {result} @llvm.{name}({types})")
        call = f"call {flags + ' ' if flags else ''}{result} @llvm.{name}({', '.join(args)})"
        if result == "void":
            self.line(call)
            return ""
        return self.let(call)

    def define(self, head: str) -> str:
        """The function's text; `head` is all before the brace."""
        body = ["entry:", *self.allocas, "  br label %start", "start:", *self.lines]
        return head + " {\n" + "\n".join(body) + "\n}\n"
