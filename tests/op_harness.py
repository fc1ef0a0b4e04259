"""Every operator's samples as functions of one module, compiled and compared with the operator's numpy reference."""

from __future__ import annotations

import numpy as np

from pliant.ir.build import Builder
from pliant.ir.dims import Dim
from pliant.ir.facts import Facts
from pliant.ir.graph import Block, Function, Module, Operand, Param, Var
from pliant.ir.infer import literal
from pliant.ir.op import Sample
from pliant.ir.subs import subs_op
from pliant.ir.types import DType, TensorType, tensor


def sample_function(name: str, sample: Sample) -> Function:
    """The sample as a function: tensor operands are parameters, numbers stay literals."""
    types: dict[str, TensorType] = {}
    operands: list[Operand | bool | int | float | None] = []
    for i, given in enumerate(sample.operands):
        if isinstance(given, TensorType):
            types[f"x{i}"] = given
            operands.append(Var(f"x{i}"))
        else:
            operands.append(given if given is None else literal(given))
    for symbol in unbound_symbols(sample):
        types[f"size_of_{symbol}"] = tensor("u8", symbol)
    params = tuple(Param(n, t) for n, t in types.items())
    b = Builder(Facts().add(*sample.facts), dict(types), {})
    made = b.apply(sample.op, *operands)
    results = made if isinstance(made, tuple) else (made,)
    return Function(
        name, params, tuple(b.type(r) for r in results), sample.facts, (), Block(tuple(b.statements), results)
    )


def unbound_symbols(sample: Sample) -> list[str]:
    """Symbols of attributes and facts that no operand binds; the function gets a parameter for each."""
    bound = {s for g in sample.operands if isinstance(g, TensorType) for d in g.dims for s in d.symbols}
    used = sample.op.dims().union(*(f.symbols for f in sample.facts))
    return sorted(used - bound)


def sample_module(samples: list[Sample]) -> Module:
    return Module((), (), tuple(sample_function(f"s{i}", s) for i, s in enumerate(samples)))


def sample_arrays(sample: Sample, binding: dict[str, int], seed: int = 0) -> list[np.ndarray | None]:
    """One array per operand at this binding of the symbols, None where the sample has none."""
    rng = np.random.default_rng(seed)
    made = sample.make(rng, binding) if sample.make is not None else (None,) * len(sample.operands)
    out: list[np.ndarray | None] = []
    for given, array in zip(sample.operands, made, strict=True):
        if array is not None:
            out.append(np.asarray(array))
        elif isinstance(given, TensorType):
            out.append(random_array(rng, given.dtype, tuple(d.evaluate(binding) for d in given.dims)))
        else:
            out.append(None if given is None else np.asarray(given))
    return out


def random_array(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        return rng.integers(0 if not dtype.is_signed else -9, 10, shape).astype(dtype.numpy)
    return rng.standard_normal(shape).astype(dtype.numpy)


def references(sample: Sample, arrays: list[np.ndarray | None], binding: dict[str, int]) -> tuple[np.ndarray, ...]:
    """What the operator's own numpy meaning gives; literals take the dtype that inference gives them."""
    typed = _literals(sample, arrays)
    result = subs_op(sample.op, {s: Dim.of(v) for s, v in binding.items()}).reference(*typed)
    return result if isinstance(result, tuple) else (result,)


def _literals(sample: Sample, arrays: list[np.ndarray | None]) -> list[np.ndarray | None]:
    tensors = [g if isinstance(g, TensorType) else None for g in sample.operands]
    dtype = sample.op.literal_dtype(tensors)
    out: list[np.ndarray | None] = []
    for given, array in zip(sample.operands, arrays, strict=True):
        if array is not None and not isinstance(given, TensorType):
            own = np.bool_ if isinstance(given, bool) else np.int64 if isinstance(given, int) else np.float32
            array = np.asarray(given).astype(dtype.numpy if dtype is not None else own)
        out.append(array)
    return out


def assert_matches(got: np.ndarray, want: np.ndarray, sample: Sample, where: str) -> None:
    """Equal shape and dtype; values within the sample's tolerances (exact for integers and bools)."""
    assert got.dtype == want.dtype, f"{where}: dtype {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"{where}: shape {got.shape}, expected {want.shape}"
    if DType.of(got.dtype).is_float:
        np.testing.assert_allclose(
            got.astype(np.float64),
            want.astype(np.float64),
            rtol=sample.rtol,
            atol=sample.atol,
            equal_nan=True,
            err_msg=where,
        )
    else:
        np.testing.assert_array_equal(got, want, err_msg=where)


def arguments(sample: Sample, arrays: list[np.ndarray | None], binding: dict[str, int]) -> list[np.ndarray]:
    """What the sample's function is called with."""
    given = [a for g, a in zip(sample.operands, arrays, strict=True) if isinstance(g, TensorType) and a is not None]
    return given + [np.zeros(binding[s], np.uint8) for s in unbound_symbols(sample)]
