"""Where everything of a host function stands in its frame, and the checks that it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.diagnostics import Span
from ...ir.dims import Dim
from ...ir.loops import BindSymbol, CheckEqual, Copy, HostProgram, HostStep, HostTensor, Launch, Ref
from ...ir.types import DType, product
from ...runtime.layout import HEADER_SLOTS


@dataclass(frozen=True)
class FrameLayout:
    """Numbers of the first slot of each part of a frame, see `runtime.layout`.

    `tables` holds (space, name, slot) for weights, constants and packed buffers; `derived` the slots of the sizes that
    launches use, which `prepare` computes and `run` reads.
    """

    slots: int
    arguments: int
    outputs: int
    descriptors: int
    data: int
    ends: int
    tables: tuple[tuple[str, str, int], ...]
    symbols: dict[str, int]
    shapes: int
    derived: dict[Dim, int]

    def table(self, space: str, name: str) -> int:
        for known_space, known_name, slot in self.tables:
            if (known_space, known_name) == (space, name):
                return slot
        raise KeyError(f"{space} {name}")


def layout_frame(program: HostProgram, *, load: bool = False) -> FrameLayout:
    """Lays out the frame of a function; in the `load` program weights are parameters and packed buffers outputs."""
    params, outputs = len(program.params), len(program.outputs)
    arguments = HEADER_SLOTS
    output_slots = arguments + params
    descriptors = output_slots + outputs
    data = descriptors + params
    ends = data + params
    position = ends + (params if writes_parameters(program) else 0)
    tables: dict[tuple[str, str], int] = {}
    for ref in references(program):
        if ref.space == "const" or (ref.space in ("weight", "packed") and not load):
            tables.setdefault((ref.space, ref.name), position + len(tables))
    position += len(tables)
    bound = [s.symbol for s in program.steps if isinstance(s, BindSymbol)]
    symbols = {name: position + i for i, name in enumerate([*program.inherited, *bound])}
    position += len(program.inherited) + len(bound)
    shapes = position
    position += sum(len(t.dims) for t in program.outputs)
    derived: dict[Dim, int] = {}
    for dim in launch_dims(program):
        if not dim.is_const and dim.name not in symbols:
            derived.setdefault(dim, position + len(derived))
    return FrameLayout(
        position + len(derived),
        arguments,
        output_slots,
        descriptors,
        data,
        ends,
        tuple((space, name, slot) for (space, name), slot in tables.items()),
        symbols,
        shapes,
        derived,
    )


def writes_parameters(program: HostProgram) -> bool:
    return any(p.inout for p in program.params)


def references(program: HostProgram) -> Iterator[Ref]:
    """Every buffer that a launch or copy uses."""
    for item in program.launches:
        yield from item.buffers if isinstance(item, Launch) else (item.source, item.target)


def launch_dims(program: HostProgram) -> Iterator[Dim]:
    """Every size and offset that launches and copies use."""
    for item in program.launches:
        if isinstance(item, Copy):
            yield item.bytes
        else:
            yield from item.sizes
    yield from (ref.offset for ref in references(program))


def slot_name(tensor: HostTensor, dimension: int) -> str:
    """How steps name a dimension of an argument."""
    return f"{tensor.name}.{dimension}"


def slots_of(tensor: HostTensor) -> range:
    """The numbers of the slots that steps may use of an argument: its dimensions, or 0 for the value of a scalar."""
    return range(len(tensor.dims) or int(tensor.dtype is DType.i64))


def byte_size(tensor: HostTensor) -> Dim:
    return product(tensor.dims) * tensor.dtype.bytes


def all_steps(program: HostProgram) -> tuple[HostStep, ...]:
    """The program's steps, and a check for every declared size of a parameter that none of them covers."""
    covered = set(_differences(program))
    extra: list[HostStep] = []
    for param in program.params:
        for number, dim in enumerate(param.dims):
            actual = Dim.of(slot_name(param, number))
            if actual - dim not in covered:
                declared = f"{param.name}: {type_text(param)}"
                extra.append(CheckEqual(actual, dim, declared, _span_of(program, param)))
    return (*program.steps, *extra)


def _differences(program: HostProgram) -> Iterator[Dim]:
    """What each step makes sure to be zero."""
    for step in program.steps:
        if isinstance(step, CheckEqual):
            yield step.actual - step.expected
        elif isinstance(step, BindSymbol):
            yield step.numerator - step.divisor * Dim.of(step.symbol)


def _span_of(program: HostProgram, param: HostTensor) -> Span | None:
    slots = {slot_name(param, i) for i in slots_of(param)}
    for step in program.steps:
        if isinstance(step, BindSymbol) and step.numerator.symbols & slots:
            return step.span
    return None


def type_text(tensor: HostTensor) -> str:
    """The declared type, `f32[n, 64]`."""
    return f"{tensor.dtype}[{', '.join(map(str, tensor.dims))}]"
