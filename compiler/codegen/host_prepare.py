"""Emits `prepare`: reads the arguments, binds and checks every symbol, computes every size the call needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.dims import Dim
from ...ir.facts import Compare, Fact, InRange
from ...ir.loops import IN_USE, BindSymbol, CheckEqual, CheckFact, HostProgram, HostStep, HostTensor
from ...runtime.layout import WORD, ArrayFlag, ArrayOffset, Control, Failure, Place, Slot
from .host_dims import DimEmitter, Lines
from .host_layout import FrameLayout, byte_size, slot_name, writes_parameters

_CONDITIONS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_ALIGN = 64


@dataclass
class PrepareEmitter:
    """One `prepare` function; use `emit`."""

    program: HostProgram
    layout: FrameLayout
    steps: tuple[HostStep, ...]
    symbol: str  # the function's name in the object
    out: Lines = field(default_factory=Lines)
    dims: DimEmitter = field(init=False)

    def __post_init__(self) -> None:
        self.dims = DimEmitter(self.out)

    def emit(self) -> str:
        """The function's text."""
        self.out.label("entry")
        for name in self.program.inherited:
            self.dims.bind(name, self.load_slot(self.layout.symbols[name]))
        if IN_USE in self.program.arena_bytes.symbols:
            self.dims.bind(IN_USE, self.load_slot(Slot.IN_USE))
        used = frozenset[str]().union(*(s.numerator.symbols for s in self.steps if isinstance(s, BindSymbol)))
        for index, param in enumerate(self.program.params):
            self._read_argument(index, param)
            if not param.dims and slot_name(param, 0) in used:
                value = self.out.let(f"load i64, ptr {self.load_slot(self.layout.data + index, 'ptr')}, align 8")
                self.dims.bind(slot_name(param, 0), value)
        for index, step in enumerate(self.steps):
            self._step(index, step)
        if writes_parameters(self.program):
            self._check_overlap()
        self._outputs()
        self._derived()
        self._memory()
        self.out.do("ret i64 0")
        body = "\n".join(self.out.lines)
        return f'define i64 @"{self.symbol}"(ptr noalias %frame) nounwind {{\n{body}\n}}\n'

    # -- the frame

    def _slot(self, slot: int) -> str:
        return self.out.let(f"getelementptr inbounds i64, ptr %frame, i64 {slot}")

    def load_slot(self, slot: int, type_: str = "i64") -> str:
        return self.out.let(f"load {type_}, ptr {self._slot(slot)}, align 8")

    def _store(self, slot: int, value: str) -> None:
        self.out.do(f"store i64 {value}, ptr {self._slot(slot)}, align 8")

    def _require(
        self, ok: str, failure: Failure, index: int, dim: int = 0, got: str = "0", expected: str = "0"
    ) -> None:
        """Leaves with an error record unless `ok` (i1)."""
        good, bad = self.out.fresh("ok"), self.out.fresh("bad")
        self.out.do(f"br i1 {ok}, label %{good}, label %{bad}")
        self.out.label(bad)
        code = self.out.let(
            f"call i64 @fail(ptr %frame, i64 {int(failure)}, i64 {index}, i64 {dim}, i64 {got}, i64 {expected})"
        )
        self.out.do(f"ret i64 {code}")
        self.out.label(good)

    def _require_arithmetic(self, index: int, place: Place) -> None:
        """Leaves if what was computed since the last such check overflowed or divided by zero."""
        overflow, zero = self.dims.take_flags()
        for flag, failure in ((zero, Failure.DIVISION), (overflow, Failure.OVERFLOW)):
            if flag is not None:
                fine = self.out.let(f"xor i1 {flag}, true")
                self._require(fine, failure, index, int(place))

    def _value(self, dim: Dim, index: int, place: Place) -> str:
        value = self.dims.emit(dim)
        self._require_arithmetic(index, place)
        return value

    # -- arguments

    def _field(self, array: str, offset: ArrayOffset, type_: str = "i64") -> str:
        place = self.out.let(f"getelementptr i8, ptr {array}, i64 {int(offset)}")
        return self.out.let(f"load {type_}, ptr {place}, align {4 if type_ == 'i32' else 8}")

    def _read_argument(self, index: int, param: HostTensor) -> None:
        let = self.out.let
        array = self.load_slot(self.layout.arguments + index, "ptr")
        kind, known = self._field(array, ArrayOffset.TYPE), self.load_slot(Slot.ARRAY_TYPE)
        self._require(let(f"icmp eq i64 {kind}, {known}"), Failure.NOT_ARRAY, index)
        rank = self._field(array, ArrayOffset.RANK, "i32")
        same = let(f"icmp eq i32 {rank}, {len(param.dims)}")
        self._require(same, Failure.RANK, index, 0, let(f"sext i32 {rank} to i64"), str(len(param.dims)))
        descriptor = self._field(array, ArrayOffset.DESCRIPTOR)
        wanted = self.load_slot(self.layout.descriptors + index)
        self._require(let(f"icmp eq i64 {descriptor}, {wanted}"), Failure.DTYPE, index)
        flags = self._field(array, ArrayOffset.FLAGS, "i32")
        self._require_flags(index, flags, ArrayFlag.C_CONTIGUOUS | ArrayFlag.ALIGNED, Failure.LAYOUT)
        if param.inout:
            self._require_flags(index, flags, ArrayFlag.WRITEABLE, Failure.READ_ONLY)
        self._store(self.layout.data + index, self._field(array, ArrayOffset.DATA))
        if param.dims:
            sizes = self._field(array, ArrayOffset.DIMS, "ptr")
            for number in range(len(param.dims)):
                place = let(f"getelementptr inbounds i64, ptr {sizes}, i64 {number}")
                self.dims.bind(slot_name(param, number), let(f"load i64, ptr {place}, align 8"))

    def _require_flags(self, index: int, flags: str, wanted: ArrayFlag, failure: Failure) -> None:
        masked = self.out.let(f"and i32 {flags}, {int(wanted)}")
        self._require(self.out.let(f"icmp eq i32 {masked}, {int(wanted)}"), failure, index)

    # -- symbols and facts

    def _step(self, index: int, step: HostStep) -> None:
        if isinstance(step, BindSymbol):
            self._bind(index, step)
        elif isinstance(step, CheckEqual):
            actual, expected = self.dims.emit(step.actual), self.dims.emit(step.expected)
            self._require_arithmetic(index, Place.STEP)
            same = self.out.let(f"icmp eq i64 {actual}, {expected}")
            self._require(same, Failure.UNEQUAL, index, 0, actual, expected)
        else:
            self._check_fact(index, step)

    def _bind(self, index: int, step: BindSymbol) -> None:
        numerator, divisor = self.dims.emit(step.numerator), self.dims.emit(step.divisor)
        value = numerator
        if divisor != "1":
            value, rest = self.dims.floordiv(numerator, divisor), self.dims.mod(numerator, divisor)
            self._require_arithmetic(index, Place.STEP)
            exact = self.out.let(f"icmp eq i64 {rest}, 0")
            self._require(exact, Failure.INEXACT, index, 0, numerator, divisor)
        self._require_arithmetic(index, Place.STEP)
        self._require(self.out.let(f"icmp sge i64 {value}, 0"), Failure.NEGATIVE, index, 0, value)
        self.dims.bind(step.symbol, value)
        self._store(self.layout.symbols[step.symbol], value)

    def _check_fact(self, index: int, step: CheckFact) -> None:
        fact: Fact = step.fact
        let = self.out.let
        if isinstance(fact, Compare):
            left, right = self.dims.emit(fact.lhs), self.dims.emit(fact.rhs)
            self._require_arithmetic(index, Place.STEP)
            self._require(let(f"icmp {_CONDITIONS[fact.op]} i64 {left}, {right}"), Failure.FACT, index, 0, left, right)
            return
        value = self._value(fact.dim, index, Place.STEP)
        if isinstance(fact, InRange):
            bounds = [("sge", fact.lo)] + ([] if fact.hi is None else [("sle", fact.hi)])
            for condition, bound in bounds:
                limit = self._value(Dim.of(bound), index, Place.STEP)
                self._require(let(f"icmp {condition} i64 {value}, {limit}"), Failure.FACT, index, 0, value, limit)
            return
        found = "false"
        for choice in fact.values:
            same = let(f"icmp eq i64 {value}, {self._value(Dim.of(choice), index, Place.STEP)}")
            found = let(f"or i1 {found}, {same}")
        self._require(found, Failure.FACT, index, 0, value)

    # -- memory that is written must be nobody else's

    def _check_overlap(self) -> None:
        let = self.out.let
        params = self.program.params
        for index, param in enumerate(params):
            size = self._value(byte_size(param), index, Place.MEMORY)
            start = self.load_slot(self.layout.data + index)
            self._store(self.layout.ends + index, let(f"add i64 {start}, {size}"))
        data, ends = self._slot(self.layout.data), self._slot(self.layout.ends)
        for index, param in enumerate(params):
            if param.inout:
                other = let(f"call i64 @overlap(ptr {data}, ptr {ends}, i64 {len(params)}, i64 {index})")
                none = let(f"icmp slt i64 {other}, 0")
                good, bad = self.out.fresh("ok"), self.out.fresh("bad")
                self.out.do(f"br i1 {none}, label %{good}, label %{bad}")
                self.out.label(bad)
                kind = int(Failure.OVERLAP)
                code = let(f"call i64 @fail(ptr %frame, i64 {kind}, i64 {index}, i64 {other}, i64 0, i64 0)")
                self.out.do(f"ret i64 {code}")
                self.out.label(good)

    # -- results and sizes

    def _outputs(self) -> None:
        position = self.layout.shapes
        for index, tensor in enumerate(self.program.outputs):
            self._value(byte_size(tensor), index, Place.OUTPUT)  # so that no size of it can overflow
            for number, dim in enumerate(tensor.dims):
                size = self._value(dim, index, Place.OUTPUT)
                if not dim.is_const:
                    fine = self.out.let(f"icmp sge i64 {size}, 0")
                    self._require(fine, Failure.OUTPUT, index, number, size)
                self._store(position, size)
                position += 1

    def _derived(self) -> None:
        for dim, slot in self.layout.derived.items():
            self._store(slot, self.dims.emit(dim))
        self._require_arithmetic(0, Place.LAUNCH)

    def _memory(self) -> None:
        """scratch of worker 0 | scratch of worker 1 | ... | arena, from the start of the frame's region."""
        let, dims = self.out.let, self.dims
        control = self.load_slot(Slot.HANDLE, "ptr")
        workers = self._workers(control)
        stride = dims.emit(-(-self.program.scratch_bytes // _ALIGN) * _ALIGN)
        arena = dims.emit(-(-self.program.arena_bytes // _ALIGN) * _ALIGN)
        scratch = dims.mul(workers, stride)
        needed = dims.add(scratch, arena)
        self._require_arithmetic(0, Place.MEMORY)
        self._store(Slot.WORKERS, workers)
        self._store(Slot.LIMIT, workers)
        self._store(Slot.NEEDED, needed)
        self._store(Slot.SCRATCH_STRIDE, stride)
        capacity, base = self.load_slot(Slot.CAPACITY), self.load_slot(Slot.REGION)
        self._require(let(f"icmp sle i64 {needed}, {capacity}"), Failure.GROW, 0, 0, needed, capacity)
        self._store(Slot.SCRATCH, base)
        self._store(Slot.ARENA, let(f"add i64 {base}, {scratch}"))

    def _workers(self, control: str) -> str:
        """As many as the pool has now; 1 without a pool."""
        let = self.out.let
        before, there, after = self.out.fresh("control"), self.out.fresh("pool"), self.out.fresh("workers")
        none = let(f"icmp eq ptr {control}, null")
        self.out.do(f"br label %{before}")
        self.out.label(before)
        self.out.do(f"br i1 {none}, label %{after}, label %{there}")
        self.out.label(there)
        place = let(f"getelementptr i8, ptr {control}, i64 {Control.THREADS * WORD}")
        wanted = let(f"load atomic i64, ptr {place} monotonic, align 8")
        threads = let(f"call i64 @llvm.smax.i64(i64 {wanted}, i64 1)")
        self.out.do(f"br label %{after}")
        self.out.label(after)
        return let(f"phi i64 [1, %{before}], [{threads}, %{there}]")
