"""The tests of kernels on the CPU, run on the CUDA code of the same kernels: both targets mean the same."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from pliant.compiler.codegen import kernel_scalar
from pliant.compiler.codegen.cuda import scalar
from pliant.ir.types import DType
from tests import test_kernel_codegen as kernels
from tests import test_kernel_scalars as scalars
from tests.cuda_emulator.emulator import available
from tests.cuda_emulator.loaded import Emulated

pytestmark = pytest.mark.skipif(not available(), reason="the emulator is built by g++")

EVERY = [*scalars.FLOATS, *scalars.INTS, DType.bool]


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "Loaded", Emulated)
    monkeypatch.setattr(kernels, "Loaded", Emulated)


@pytest.mark.parametrize("dtype", EVERY)
def test_scalar_functions(dtype: DType) -> None:
    if dtype.is_float:
        scalars.test_float_functions(dtype)
    elif dtype.is_int:
        scalars.test_integer_functions(dtype)
    else:
        scalars.test_bool_functions()
    scalars.test_comparisons_and_predicates(dtype)


@pytest.mark.parametrize("dtype", EVERY)
def test_casts(dtype: DType) -> None:
    scalars.test_casts(dtype)


def test_casts_that_round_or_saturate() -> None:
    scalars.test_casts_out_of_range_saturate()
    scalars.test_f64_to_sixteen_bits_rounds_once()
    for half in (DType.f16, DType.bf16):
        scalars.test_rounding_to_sixteen_bits(half, by_integers=False)


def test_ternary_functions() -> None:
    scalars.test_ternary_functions()


def test_both_targets_have_the_same_functions() -> None:
    assert scalar.scalar_functions() == kernel_scalar.scalar_functions()


@pytest.mark.parametrize("dtype", [DType.f32, DType.i64, DType.i8, DType.bf16])
def test_reductions(dtype: DType) -> None:
    for fn in ("add", "mul", "maximum", "minimum"):
        kernels.test_reductions(fn, dtype)


_STATEMENTS = (
    kernels.test_every_size,
    kernels.test_nan_reaches_the_result_of_a_reduction,
    kernels.test_guarded_loads_stay_in_range,
    kernels.test_data_dependent_index,
    kernels.test_index_arithmetic,
    kernels.test_if_while_and_locals,
    kernels.test_softmax_in_place,
    kernels.test_scratch_arrays,
    kernels.test_parallel_loops_see_lets_and_locals,
)


@pytest.mark.parametrize("test", _STATEMENTS, ids=lambda test: test.__name__.removeprefix("test_"))
def test_statements(test: Callable[[], None]) -> None:
    test()


def test_the_modules_are_the_ones_patched() -> None:
    for module in (scalars, kernels):
        assert isinstance(module, ModuleType)
        assert module.Loaded is Emulated
