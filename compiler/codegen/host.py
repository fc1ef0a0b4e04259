"""The host side of a program as LLVM IR: for each function `prepare` and `run` over a frame (see `runtime.layout`).

`i64 prepare(ptr frame)` is called with the interpreter lock held. It reads the argument objects, binds and checks every
symbol, and computes the sizes of the outputs and of everything that is launched, all in checked arithmetic. It returns
0, or a `Failure` with its details in the frame.

`i64 run(ptr frame)` is called without the lock, after `prepare` and once the outputs are there. It launches the kernels
and returns 0, or the record of a failed `Require`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.dims import Dim
from ...ir.loops import Copy, HostProgram, HostStep, HostTensor, Kernel, Launch, Program, Ref, Result
from ...runtime.layout import CONTEXT, SERIAL_RUN_SYMBOL, ArrayOffset, Slot
from .host_dims import DECLARATIONS, Lines
from .host_layout import FrameLayout, all_steps, layout_frame
from .host_prepare import PrepareEmitter
from .names import kernel_symbol, symbol

_HELPERS = f"""\
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @fail(ptr %frame, i64 %kind, i64 %index, i64 %dim, i64 %got, i64 %expected)
    nounwind noinline cold {{
  store i64 %kind, ptr %frame, align 8
  %p1 = getelementptr i64, ptr %frame, i64 {int(Slot.INDEX)}
  store i64 %index, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %frame, i64 {int(Slot.DIM)}
  store i64 %dim, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %frame, i64 {int(Slot.GOT)}
  store i64 %got, ptr %p3, align 8
  %p4 = getelementptr i64, ptr %frame, i64 {int(Slot.EXPECTED)}
  store i64 %expected, ptr %p4, align 8
  ret i64 %kind
}}

; The first other block that has bytes in common with block %self; -1 if there is none.
define internal i64 @overlap(ptr %starts, ptr %ends, i64 %count, i64 %self) nounwind {{
entry:
  %p0 = getelementptr i64, ptr %starts, i64 %self
  %start = load i64, ptr %p0, align 8
  %p1 = getelementptr i64, ptr %ends, i64 %self
  %end = load i64, ptr %p1, align 8
  br label %next
next:
  %i = phi i64 [0, %entry], [%i1, %look], [%i1, %skip]
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i, %count
  br i1 %more, label %test, label %none
test:
  %same = icmp eq i64 %i, %self
  br i1 %same, label %skip, label %look
skip:
  br label %next
look:
  %p2 = getelementptr i64, ptr %starts, i64 %i
  %other_start = load i64, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %ends, i64 %i
  %other_end = load i64, ptr %p3, align 8
  %low = call i64 @llvm.umax.i64(i64 %start, i64 %other_start)
  %high = call i64 @llvm.umin.i64(i64 %end, i64 %other_end)
  %shared = icmp ult i64 %low, %high
  br i1 %shared, label %found, label %next
found:
  ret i64 %i
none:
  ret i64 -1
}}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; What kernels are given for a pool when there is none.
define void @"{SERIAL_RUN_SYMBOL}"(ptr %pool, ptr %fn, ptr %arg, i64 %chunks) nounwind {{
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%i1, %chunk]
  %more = icmp slt i64 %i, %chunks
  br i1 %more, label %chunk, label %end
chunk:
  call void %fn(ptr %arg, i64 %i, i64 0)
  %i1 = add i64 %i, 1
  br label %next
end:
  ret void
}}
"""


@dataclass(frozen=True)
class HostFunction:
    """What was emitted for one function; `steps` are those that `prepare` numbers its failures by."""

    program: HostProgram
    layout: FrameLayout
    steps: tuple[HostStep, ...]
    prepare: str
    run: str
    is_load: bool = False


@dataclass(frozen=True)
class HostCode:
    """The module's text, and what the contract has to say of its functions."""

    ir_text: str
    functions: tuple[HostFunction, ...]
    load: HostFunction | None


def emit_host(program: Program) -> HostCode:
    """Emits `prepare` and `run` for each function, and for the load program if there are weights.

    ValueError when the program is not closed: an unbound symbol, an unknown kernel or buffer.
    """
    load = load_program(program)
    kernels = {k.name: (i, k) for i, k in enumerate(program.kernels)}
    parts, functions = [DECLARATIONS, _HELPERS, *(_declare(k) for k in program.kernels)], []
    for host, prefix in [(f, "") for f in program.functions] + ([(load, "load.")] if load is not None else []):
        layout = layout_frame(host, load=host is load)
        prepare, run = symbol(f"prepare.{prefix}{host.name}"), symbol(f"run.{prefix}{host.name}")
        function = HostFunction(host, layout, all_steps(host), prepare, run, host is load)
        try:
            parts.append(PrepareEmitter(host, function.layout, function.steps, function.prepare).emit())
            parts.append(_RunEmitter(function, kernels).emit())
        except KeyError as error:
            raise ValueError(f"host program @{host.name} uses {error}, which it does not have") from error
        functions.append(function)
    last = functions.pop() if load is not None else None
    return HostCode("\n".join(parts), tuple(functions), last)


def load_program(program: Program) -> HostProgram | None:
    """The program's own, or one that only checks the weights, whose sizes are then constants."""
    if program.load is not None or not program.weights:
        return program.load
    nothing: tuple[Result, ...] = ()
    return HostProgram("load", program.weights, (), nothing, (), (), (), Dim.of(0))


def _declare(kernel: Kernel) -> str:
    types = ", ".join(["ptr"] * (1 + len(kernel.buffers)) + ["i64"] * len(kernel.sizes))
    return f'declare void @"{kernel_symbol(kernel.name)}"({types})'


@dataclass
class _RunEmitter:
    function: HostFunction
    kernels: dict[str, tuple[int, Kernel]]
    out: Lines = field(default_factory=Lines)
    values: dict[tuple[object, ...], str] = field(default_factory=dict)

    def emit(self) -> str:
        self.out.label("entry")
        context = self._slot(int(CONTEXT))
        self.out.do(f"store i64 0, ptr {self._slot(int(Slot.KERNEL_ERROR))}, align 8")
        for item in self.function.program.launches:
            if isinstance(item, Launch):
                self._launch(item, context)
            else:
                self._copy(item)
        self.out.do("ret i64 0")
        body = "\n".join(self.out.lines)
        return f'define i64 @"{self.function.run}"(ptr %frame) nounwind {{\n{body}\n}}\n'

    def _launch(self, item: Launch, context: str) -> None:
        _, kernel = self.kernels[item.kernel]
        buffers = [f"ptr {self._buffer(ref)}" for ref in item.buffers]
        sizes = [f"i64 {self._size(dim)}" for dim in item.sizes]
        if len(buffers) != len(kernel.buffers) or len(sizes) != len(kernel.sizes):
            raise ValueError(f"a launch of {item.kernel} has another number of arguments than the kernel")
        self.out.do(f'call void @"{kernel_symbol(item.kernel)}"({", ".join([f"ptr {context}", *buffers, *sizes])})')
        if kernel.checks:
            # What follows could not rely on what failed.
            place = self._slot(int(Slot.KERNEL_ERROR))
            error = self.out.let(f"load i64, ptr {place}, align 8")
            good, bad = self.out.fresh("ok"), self.out.fresh("bad")
            none = self.out.let(f"icmp eq i64 {error}, 0")
            self.out.do(f"br i1 {none}, label %{good}, label %{bad}")
            self.out.label(bad)
            self.out.do(f"ret i64 {error}")
            self.out.label(good)

    def _copy(self, item: Copy) -> None:
        target, source, size = self._buffer(item.target), self._buffer(item.source), self._size(item.bytes)
        self.out.do(f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def _slot(self, slot: int) -> str:
        return self._shared(("slot", slot), f"getelementptr inbounds i64, ptr %frame, i64 {slot}")

    def _load(self, slot: int, type_: str) -> str:
        return self._shared(("load", slot, type_), f"load {type_}, ptr {self._slot(slot)}, align 8")

    def _shared(self, key: tuple[object, ...], instruction: str) -> str:
        if key not in self.values:
            self.values[key] = self.out.let(instruction)
        return self.values[key]

    def _size(self, dim: Dim) -> str:
        """A size that `prepare` left in the frame."""
        if dim.is_const:
            return str(dim.value)
        layout = self.function.layout
        slot = layout.symbols[dim.name] if dim.name in layout.symbols else layout.derived[dim]
        return self._load(slot, "i64")

    def _buffer(self, ref: Ref) -> str:
        base = self._base(ref)
        if ref.offset == Dim.of(0):
            return base
        offset = self._size(ref.offset)
        return self._shared(("at", base, offset), f"getelementptr i8, ptr {base}, i64 {offset}")

    def _base(self, ref: Ref) -> str:
        layout, program = self.function.layout, self.function.program
        if ref.space == "arena":
            return self._load(int(Slot.ARENA), "ptr")
        own = self.function.is_load
        if ref.space == "param" or (ref.space == "weight" and own):
            return self._load(layout.data + _position(program.params, ref.name), "ptr")
        if ref.space == "output" or (ref.space == "packed" and own):
            array = self._load(layout.outputs + _position(program.outputs, ref.name), "ptr")
            place = self._shared(("data", array), f"getelementptr i8, ptr {array}, i64 {int(ArrayOffset.DATA)}")
            return self._shared(("data of", array), f"load ptr, ptr {place}, align 8")
        return self._load(layout.table(ref.space, ref.name), "ptr")


def _position(tensors: tuple[HostTensor, ...], name: str) -> int:
    for index, tensor in enumerate(tensors):
        if tensor.name == name:
            return index
    raise KeyError(name)
