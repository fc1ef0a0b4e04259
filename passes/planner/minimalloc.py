"""Buffers from CSV files in the format of the MiniMalloc benchmark: a header, then `id,lower,upper,size` per line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...ir.diagnostics import Span
from .errors import PlanError
from .packing import Buffer, Packing, pack

COLUMNS = ("id", "lower", "upper", "size")


@dataclass(frozen=True)
class Row:
    """One file's packings, one per budget."""

    name: str
    buffers: int
    packings: tuple[Packing[str], ...]


def read_buffers(path: str | Path) -> list[Buffer[str]]:
    """The buffers of a file, any order of columns, further columns ignored; PlanError with the line at fault."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as problem:
        raise PlanError(f"cannot read {path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not a text file") from None
    header = [cell.strip() for cell in lines[0].split(",")] if lines else []
    if missing := [name for name in COLUMNS if name not in header]:
        help_ = f"the first line names the columns: {','.join(COLUMNS)}"
        raise PlanError(f"no column `{missing[0]}`", _span(path, 1, lines), (help_,))
    at = [header.index(name) for name in COLUMNS]
    buffers: dict[str, Buffer[str]] = {}
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            buffer = _buffer(line, at, len(header), _span(path, number, lines))
            if buffer.id in buffers:
                raise PlanError(f"buffer {buffer.id} is given twice", _span(path, number, lines))
            buffers[buffer.id] = buffer
    return list(buffers.values())


def _span(path: Path, number: int, lines: Sequence[str]) -> Span:
    end = len(lines[number - 1]) + 1 if number <= len(lines) else 1
    return Span(str(path), number, 1, number, end)


def _buffer(line: str, at: Sequence[int], width: int, span: Span) -> Buffer[str]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != width:
        raise PlanError(f"{len(cells)} values where the header has {width}", span)
    values: list[int] = []
    for name, column in zip(COLUMNS[1:], at[1:], strict=True):
        try:
            values.append(int(cells[column]))
        except ValueError:
            raise PlanError(f"`{name}` is {cells[column]!r}, not an integer", span) from None
    lower, upper, size = values
    if size < 0:
        raise PlanError(f"buffer {cells[at[0]]} has the negative size {size}", span)
    if upper < lower:
        raise PlanError(f"buffer {cells[at[0]]} ends at {upper}, before it begins at {lower}", span)
    return Buffer(cells[at[0]], lower, upper, size)


def report_file(
    path: str | Path, *, budget_s: float | None = 0.05, iterations: int | None = None, seed: int = 0
) -> Packing[str]:
    """The packing of a file's buffers; offsets by the file's ids."""
    return pack(read_buffers(path), budget_s=budget_s, iterations=iterations, seed=seed)


def minimalloc_table(paths: str | Path | Iterable[str | Path], budgets: Sequence[float] = (0.05, 3.0)) -> list[Row]:
    """A row per file, in the order given; a folder stands for its `*.csv` files by name. Budgets in seconds a file."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    rows = []
    for file in _files(given):
        buffers = read_buffers(file)
        rows.append(Row(file.name, len(buffers), tuple(pack(buffers, budget_s=budget) for budget in budgets)))
    return rows


def _files(given: Sequence[str | Path]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, given):
        found = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not found:
            raise PlanError(f"no CSV file in {path}")
        files += found
    return files


def geometric_mean(ratios: Sequence[float]) -> float:
    """1.0 for none."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def table_text(rows: Sequence[Row], budgets: Sequence[float]) -> str:
    """The rows as aligned text: peak over lower bound per budget, and the geometric means."""
    width = max([len(row.name) for row in rows] + [len("geometric mean")])
    lines = [f"{'file':<{width}}  {'buffers':>7}  {'lower bound':>12}" + "".join(_heading(b) for b in budgets)]
    for row in rows:
        cells = "".join(f"  {packing.peak:>12}  {packing.ratio:>6.4f}" for packing in row.packings)
        lines.append(f"{row.name:<{width}}  {row.buffers:>7}  {row.packings[0].lower_bound:>12}" + cells)
    means = [geometric_mean([row.packings[k].ratio for row in rows]) for k in range(len(budgets))]
    lines.append(f"{'geometric mean':<{width}}  {'':>7}  {'':>12}" + "".join(f"  {'':>12}  {m:>6.4f}" for m in means))
    return "\n".join(lines)


def _heading(budget: float) -> str:
    label = f"peak in {budget * 1000:g} ms" if budget < 1 else f"peak in {budget:g} s"
    return f"  {label:>12}  {'ratio':>6}"
