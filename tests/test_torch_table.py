"""Every row of torch's operator table against torch itself, one compiled program for all sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils import _pytree as pytree  # noqa: E402

from pliant.compiler.torch_program import compiled  # noqa: E402
from pliant.frontends.torch import coverage  # noqa: E402
from pliant.frontends.torch.export import decomposed, export, import_program  # noqa: E402
from pliant.frontends.torch.table import LEFT_OUT, SIZES, TABLE, core_overloads, reason  # noqa: E402
from pliant.frontends.torch.walk import calls, target_name  # noqa: E402
from tests.torch_cases import FIELDS, GROUPS, Case, Inputs, example  # noqa: E402

PART = 12


class Uses(torch.nn.Module):
    def __init__(self, cases: Mapping[str, Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *given: Any) -> Any:
        return [case(Inputs(*given)) for case in self.cases.values()]


def parts() -> list[tuple[str, int]]:
    return [(group, at) for group, cases in GROUPS.items() for at in range(0, len(cases), PART)]


def chosen(group: str, at: int) -> dict[str, Case]:
    return dict(list(GROUPS[group].items())[at : at + PART])


def shapes(n: Any, m: Any, h: Any) -> tuple[Any, ...]:
    moving = {
        "z": {0: n, 2: h}, "w": {}, "a": {}, "e": {0: m, 1: m}, "q": {0: n, 2: m}, "v": {0: m}, "s": {0: n},
    }  # fmt: skip
    return (tuple(moving.get(name, {0: n, 1: m}) for name in FIELDS),)


def compare(exe: Any, cases: Mapping[str, Case], given: tuple[Any, ...]) -> None:
    got = exe(*given)
    for name, have, case in zip(cases, got, cases.values(), strict=True):
        wanted = pytree.tree_leaves(case(Inputs(*given)))
        for a, b in zip(pytree.tree_leaves(have), wanted, strict=True):
            tolerance = {"rtol": 2e-3, "atol": 2e-3} if b.dtype is torch.float16 else {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(a, b, equal_nan=True, **tolerance, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize(("group", "at"), parts())
def test_rows_agree_with_torch_at_moving_sizes(group: str, at: int) -> None:
    cases = chosen(group, at)
    auto = torch.export.Dim.AUTO
    program = export(Uses(cases), example(3, 5, 8), None, shapes(auto, auto, auto))
    core = decomposed(program)
    met = {target_name(node.target) for node in calls(core.graph_module)}
    assert {name for name in cases if name in TABLE} - met <= NEVER_MET, "a case does not reach its row"
    exe = compiled(import_program(core, run_decompositions=False))
    for sizes in ((3, 5, 8), (2, 9, 6), (7, 2, 11)):
        compare(exe, cases, example(*sizes, seed=sizes[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("group", "at"), parts())
def test_rows_agree_with_torch_at_one_size(group: str, at: int) -> None:
    cases = chosen(group, at)
    exe = compiled(import_program(export(Uses(cases), example(3, 5, 8), None, None)))
    compare(exe, cases, example(3, 5, 8, seed=4))


NEVER_MET = frozenset(
    {
        # Functionalisation or torch.export replaces them before the walk; they are met in graphs of older files.
        "aten._unsafe_view.default", "aten.detach.default", "aten.lift_fresh_copy.default", "aten.contiguous.default",
        "aten.reshape.default", "aten.flatten.using_ints", "aten.unflatten.int", "aten.dropout.default",
        "aten.alias.default", "aten.t.default", "aten.transpose.int", "aten.arange.default", "aten.arange.start",
        "aten.clamp_min.default", "aten.clamp_max.default", "aten.empty.memory_format", "aten.empty_strided.default",
        "aten.squeeze.default", "aten.squeeze.dim", "aten.lift.default", "aten.lift_fresh.default",
    }
)  # fmt: skip


def test_every_row_has_a_case() -> None:
    used = {name for cases in GROUPS.values() for name in cases}
    assert set(TABLE) - used == set()


def test_core_aten_is_imported_or_left_out_for_a_reason() -> None:
    rows = coverage.core_rows()
    assert len(rows) >= 190
    assert [r[0] for r in rows if r[2] == "no" and not reason(r[0])] == []
    assert set(LEFT_OUT) & set(TABLE) == set()
    assert {r[0] for r in rows} == set(core_overloads())
    assert SIZES & set(TABLE) == frozenset()
