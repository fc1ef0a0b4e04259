"""Calls: arrays of several libraries, buffers for results, memory, errors in kernels, many threads at once."""

import threading
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pliant.ir.dims import Dim
from pliant.ir.loops import Copy, Launch, Program, Ref, Result
from pliant.runtime import (
    ArgumentError,
    DeviceError,
    DTypeError,
    Executable,
    KernelError,
    LayoutError,
    ShapeError,
    get_num_threads,
    set_num_threads,
)
from pliant.runtime import function as function_module
from pliant.runtime.numpy_abi import arrays_are_readable

from .runtime_programs import (
    ADD_ONE,
    SCRATCH,
    TAKE,
    add_one,
    bind,
    doubled_twice,
    executable,
    kernel,
    rows,
    scratch,
    single,
    sum_ir,
    sum_of,
    take,
    tensor,
)


@pytest.fixture(scope="module")
def adder() -> Executable:
    return executable(add_one(), ADD_ONE)


def identity(dtype: str) -> Executable:
    """@main(x: dtype[n]) -> dtype[n], a copy."""
    x, y = tensor("x", dtype, "n"), tensor("y", dtype, "n")
    copy = Copy(Ref("param", "x"), Ref("output", "y"), Dim.of("n") * x.dtype.bytes)
    return executable(single((x,), (y,), (bind("n", "x.0", "x"),), (copy,)))


# -- what is accepted


def test_numpy_is_read_in_this_interpreter() -> None:
    assert arrays_are_readable()


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"])
def test_every_element_type(dtype: str) -> None:
    exe = identity(dtype)
    x = np.array([0, 1, 1, 0, 1]).astype(tensor("x", dtype).dtype.numpy)
    y = exe(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_arrays_that_are_not_as_native_code_wants_them(adder: Executable) -> None:
    base = rows(6, 8)
    unaligned = np.frombuffer(bytes(1) + rows(3).tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4)
    assert not unaligned.flags.aligned
    fresh_dtype = rows(3).view(np.dtype(np.float32, metadata={"a": 1}))
    assert fresh_dtype.dtype is not np.dtype(np.float32)
    frozen = rows(3)
    frozen.flags.writeable = False

    class Sub(np.ndarray[Any, Any]):
        pass

    odd = [base[::2, ::2], rows(4).T.copy().T, base[::-1, 4:], unaligned, fresh_dtype, frozen, rows(3).view(Sub)]
    for x in [*odd, np.asfortranarray(rows(5)), np.broadcast_to(np.float32(3), (2, 4))]:
        y = adder(x)
        np.testing.assert_array_equal(y, np.asarray(x) + 1)
        assert type(y) is np.ndarray


def test_results_do_not_share_memory(adder: Executable) -> None:
    x = rows(3)
    first, second = adder(x), adder(x)
    assert not np.shares_memory(first, second)
    assert first.flags.owndata


def scalars() -> Executable:
    params = (tensor("f", "f32"), tensor("i", "i8"), tensor("b", "bool"), tensor("h", "bf16"))
    outputs = tuple(replace(p, name=f"{p.name}_out") for p in params)
    copies = tuple(Copy(Ref("param", p.name), Ref("output", f"{p.name}_out"), Dim.of(p.dtype.bytes)) for p in params)
    return executable(single(params, outputs, (), copies))


def test_numbers_for_parameters_of_rank_0() -> None:
    exe = scalars()
    f, i, b, h = exe(1.5, -3, True, 2)
    assert (f.shape, f.dtype, f[()], i[()], b[()], h[()]) == ((), np.float32, 1.5, -3, True, 2)
    assert exe(np.float32(2.5), np.int8(4), np.bool_(False), ml_dtypes.bfloat16(1.5))[0] == 2.5
    with pytest.raises(DTypeError, match=r"`i` of @main is the float 1\.5"):
        exe(1.0, 1.5, True, 1)
    with pytest.raises(DTypeError, match="`i` of @main is 300, which int8 cannot hold"):
        exe(1.0, 300, True, 1)
    with pytest.raises(DTypeError, match="`b` of @main is the int 1"):
        exe(1.0, 1, 1, 1)
    with pytest.raises(DTypeError, match="`f` of @main is the bool True"):
        exe(True, 1, True, 1)
    with pytest.raises(DTypeError, match="elements of type float64"):
        exe(np.float64(1), 1, True, 1)


def test_what_is_no_array_is_refused(adder: Executable) -> None:
    for wrong in ([[1.0]], "text", None, {}, object()):
        with pytest.raises(ArgumentError, match="`x` of @main is a"):
            adder(wrong)
    with pytest.raises(ArgumentError, match="the mask would be lost"):
        adder(np.ma.masked_array(rows(2)))
    with pytest.raises(DTypeError, match="elements of type >f4"):
        adder(rows(2).astype(">f4"))


# -- torch and DLPack


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_tensors_in_tensors_out(adder: Executable, torch: Any) -> None:
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    y = adder(x)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, x + 1)
    assert torch.equal(adder(x.T.contiguous().T), x + 1)
    assert torch.equal(adder(torch.empty(0, 4)), torch.empty(0, 4))
    with pytest.raises(DTypeError, match="float64"):
        adder(x.double())


def test_bfloat16_tensors(torch: Any) -> None:
    exe = identity("bf16")
    x = torch.tensor([1.0, -2.5, 3e38], dtype=torch.bfloat16)
    y = exe(x)
    assert y.dtype is torch.bfloat16
    assert torch.equal(x, y)
    assert torch.equal(exe(torch.stack([x, x], 1)[:, 0]), x)


def test_tensors_that_are_refused(adder: Executable, torch: Any) -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"requires a gradient.*pass x.detach\(\)"):
        adder(x)
    with torch.no_grad():
        assert torch.equal(adder(x), torch.ones(2, 4))
    with pytest.raises(DeviceError, match="`x` of @main is on meta"):
        adder(torch.zeros(2, 4, device="meta"))
    with pytest.raises(ArgumentError, match="cannot be read as an array"):
        adder(torch.zeros(2, 4).to_sparse())


def test_a_tensor_is_read_in_place(torch: Any) -> None:
    import pliant.runtime.arrays as arrays

    x = torch.zeros(5)
    parameter = arrays.Parameter("x", "f32[5]", np.dtype(np.float32), 1, True)
    array = arrays.accept(parameter, x)
    array[2] = 7
    assert x[2] == 7


class Namespace:
    @staticmethod
    def from_dlpack(value: Any) -> "Foreign":
        return Foreign(np.from_dlpack(value))


class Foreign:
    """An array of some other library: nothing but DLPack and the way to its namespace."""

    def __init__(self, array: np.ndarray[Any, Any], device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __array_namespace__(self) -> type[Namespace]:
        return Namespace


def test_arrays_that_speak_dlpack(adder: Executable) -> None:
    y = adder(Foreign(rows(3)))
    assert isinstance(y, Foreign)
    np.testing.assert_array_equal(y.array, rows(3) + 1)
    with pytest.raises(DeviceError, match="not in the memory of the CPU"):
        adder(Foreign(rows(3), device=2))


# -- buffers for results


def test_results_into_the_callers_buffers(adder: Executable, torch: Any) -> None:
    x, y = rows(3), np.zeros((3, 4), np.float32)
    assert adder(x, out=y) is y
    np.testing.assert_array_equal(y, x + 1)
    t = torch.zeros(3, 4)
    assert adder(x, out=t) is t
    np.testing.assert_array_equal(t.numpy(), x + 1)


def test_buffers_that_are_refused(adder: Executable) -> None:
    x = rows(3)
    what = "the buffer for result `y` of @main"
    frozen = rows(3)
    frozen.flags.writeable = False
    for out, kind, said in (
        (np.zeros((4, 4), np.float32), ShapeError, r"has the shape \(4, 4\), but the result has \(3, 4\)"),
        (np.zeros((3, 4)), DTypeError, "elements of type float64"),
        (np.zeros((3, 8), np.float32)[:, ::2], LayoutError, "not contiguous"),
        (frozen, LayoutError, "read-only"),
        (x, LayoutError, "shares memory with argument `x` of @main"),
        (3.0, ArgumentError, "is a number"),
    ):
        with pytest.raises(kind, match=f"{what}.*{said}"):
            adder(x, out=out)
    with pytest.raises(ArgumentError, match="`out` must be an array"):
        adder(x, out=(x, x))
    np.testing.assert_array_equal(x, rows(3))


def tuples() -> Program:
    """@main(x: f32[n]) -> (f32[n], (f32[n], f32[n])), one output twice."""
    x, y, z = (tensor(name, "f32", "n") for name in "xyz")
    copies = tuple(Copy(Ref("param", "x"), Ref("output", name), Dim.of("n") * 4) for name in "yz")
    program = single((x,), (y, z), (bind("n", "x.0", "x"),), copies)
    (main,) = program.functions
    results = (Result("y"), Result((Result("z"), Result("y"))))
    return replace(program, functions=(replace(main, results=results, single_result=False),))


def test_several_results() -> None:
    exe = executable(tuples())
    x = np.arange(4, dtype=np.float32)
    first, (second, third) = exe(x)
    assert third is first
    np.testing.assert_array_equal(second, x)
    a, b = np.zeros(4, np.float32), np.zeros(4, np.float32)
    got = exe(x, out=(a, (b, a)))
    assert got[0] is a
    assert got[1][0] is b
    np.testing.assert_array_equal(b, x)
    with pytest.raises(ArgumentError, match=r"must be a tuple of 2 \(an array, a tuple of 2"):
        exe(x, out=a)
    with pytest.raises(LayoutError, match="result `z` of @main shares memory with the buffer for result `y`"):
        exe(x, out=(a, (a, a)))


# -- memory and threads


def test_the_arena_grows_with_the_sizes() -> None:
    exe = executable(doubled_twice(), ADD_ONE)
    for size in (0, 1, 17, 100_000, 3, 1_000_000):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(exe(x), x + 2)


def test_every_worker_has_scratch_of_its_own() -> None:
    exe = executable(scratch(), SCRATCH)
    before = get_num_threads()
    try:
        for count in (1, 4, 2, 7):
            set_num_threads(count)  # also for frames that were made for fewer
            for size in (1, 100, 2000):
                np.testing.assert_array_equal(exe(np.zeros(size, np.float32)), np.arange(size))
    finally:
        set_num_threads(before)


def test_without_a_pool_everything_runs_in_the_caller() -> None:
    exe = executable(scratch(), SCRATCH, pool=False)
    np.testing.assert_array_equal(exe(np.zeros(300, np.float32)), np.arange(300))


def test_eight_threads_call_one_executable() -> None:
    exes = (executable(doubled_twice(), ADD_ONE), executable(scratch(), SCRATCH), executable(sum_of(8), sum_ir(8)))
    wrong: list[str] = []
    start = threading.Barrier(8)

    def caller(seed: int) -> None:
        start.wait()
        rng = np.random.default_rng(seed)
        for i in range(40):
            size = int(rng.integers(0, 3000))
            x = rng.standard_normal(size).astype(np.float32)
            if not np.array_equal(exes[0](x), x + 1 + 1):
                wrong.append(f"arena {seed} {i}")
            if not np.array_equal(exes[1](x), np.arange(size)):
                wrong.append(f"scratch {seed} {i}")
            if not np.array_equal(exes[2](*[np.ones(size, np.float32)] * 8), np.full(size, 8)):
                wrong.append(f"sum {seed} {i}")
            try:
                exes[0](x.reshape(1, -1))
                wrong.append(f"refusal {seed} {i}")
            except ShapeError as error:
                if "has rank 2" not in str(error):
                    wrong.append(str(error))

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_number_of_threads_changes_while_others_call() -> None:
    exe, before, stop, wrong = executable(scratch(), SCRATCH), get_num_threads(), threading.Event(), []

    def caller() -> None:
        while not stop.is_set():
            if not np.array_equal(exe(np.zeros(500, np.float32)), np.arange(500)):
                wrong.append(1)

    threads = [threading.Thread(target=caller) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for i in range(60):
            set_num_threads(1 + i * 5 % 7)
            exe(np.zeros(100, np.float32))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        set_num_threads(before)
    assert not wrong


def test_frames_are_used_again() -> None:
    exe = executable(doubled_twice(), ADD_ONE)
    x = np.zeros(10, np.float32)
    for _ in range(50):
        exe(x)
        with pytest.raises(ShapeError):
            exe(np.zeros((2, 2), np.float32))
        with pytest.raises(DTypeError):
            exe(np.zeros(2))
    assert len(exe["main"]._free) == 1


# -- kernels that fail


def test_a_failed_check_in_a_kernel() -> None:
    exe = executable(take(), TAKE)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(exe(x, np.array([4, 0, 1, 1, 2])), [4, 0, 1, 1, 2])
    with pytest.raises(KernelError) as caught:
        exe(x, np.array([4, 0, 1, 1, 5]))
    assert str(caught.value) == "@main: index 5 is out of range for n = 5 {odd} (in `take` at test.ir:5:9)"
    with pytest.raises(KernelError):
        exe(x, np.array([4, 0, 1, 1, 5]), out=np.zeros(5, np.float32))
    np.testing.assert_array_equal(exe(x, np.array([4, 0, 1, 1, 2])), [4, 0, 1, 1, 2])


def test_what_follows_a_failed_kernel_is_not_run() -> None:
    program = take()
    (main,) = program.functions
    (launch,) = main.launches
    assert isinstance(launch, Launch)
    copy = Copy(Ref("param", "x"), Ref("output", "y"), Dim.of("n") * 4)
    exe = executable(replace(program, functions=(replace(main, launches=(launch, copy)),)), TAKE)
    out = np.full(2, 9, np.float32)
    with pytest.raises(KernelError):
        exe(np.array([1, 2], np.float32), np.array([1, 7]), out=out)
    np.testing.assert_array_equal(out, [2, 1])  # the kernel's, not the copy's
    exe(np.array([1, 2], np.float32), np.array([1, 0]), out=out)
    np.testing.assert_array_equal(out, [1, 2])


# -- where arrays cannot be read by address


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_module, "arrays_are_readable", lambda: False)


@pytest.mark.usefixtures("unreadable")
def test_arrays_described_by_structs() -> None:
    exe = executable(add_one(), ADD_ONE)
    for x in (rows(3), rows(0), rows(6, 8)[::2, ::2]):
        np.testing.assert_array_equal(exe(x), x + 1)
    with pytest.raises(ShapeError, match="dimension 1 is 5, expected 4"):
        exe(rows(3, 5))
    first, (second, _) = executable(tuples())(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(first, second)
    failing = executable(take(), TAKE)
    with pytest.raises(KernelError):
        failing(np.ones(2, np.float32), np.array([0, 7]))


# -- tuples


def pairs() -> Program:
    """@main(p: (f32[n], (f32[n], f32[n])), x: f32[n]) -> their sum, as host code sees it."""
    params = tuple(tensor(name, "f32", "n") for name in ("p.0", "p.1.0", "p.1.1", "x"))
    which = kernel("sum", *((f"a{i}", "f32", "in") for i in range(4)), ("y", "f32", "out"))
    launch = Launch("sum", (*(Ref("param", p.name) for p in params), Ref("output", "y")), (Dim.of("n"),))
    steps = (bind("n", "p.0.0", "p: (f32[n], (f32[n], f32[n]))"),)
    return single(params, (tensor("y", "f32", "n"),), steps, (launch,), (which,))


def test_tuples_as_arguments() -> None:
    exe = executable(pairs(), sum_ir(4))
    a, b, c, d = (np.full(3, 10.0**i, np.float32) for i in range(4))
    np.testing.assert_array_equal(exe((a, (b, c)), d), a + b + c + d)
    np.testing.assert_array_equal(exe(x=a, p=[b, (c, d)]), a + b + c + d)
    with pytest.raises(ArgumentError, match=r"@main takes 2 arguments \(p, x\); missing: `x`"):
        exe((a, (b, c)))
    with pytest.raises(ArgumentError, match=r"`p\.1` of @main is a tuple of 2, but got a ndarray"):
        exe((a, b), d)
    with pytest.raises(ArgumentError, match=r"`p` of @main is a tuple of 2, but got 3 items"):
        exe((a, b, c), d)
    with pytest.raises(ShapeError, match=r"argument `p\.1\.0` of @main: dimension 0 is 2, expected n = 3"):
        exe((a, (b[:2], c)), d)


def test_a_function_shows_its_declaration(adder: Executable) -> None:
    assert repr(adder["main"]) == "@main(x: f32[n, 4]) -> (f32[n, 4])"
    many = executable(pairs(), sum_ir(4))["main"]
    assert repr(many) == "@main(p: (f32[n], (f32[n], f32[n])), x: f32[n]) -> (f32[n])"
    assert "@main(x: f32[n, 4]) -> (f32[n, 4])" in repr(adder)


def test_a_parameter_called_self() -> None:
    x, y = tensor("self", "f32", "n"), tensor("y", "f32", "n")
    copy = Copy(Ref("param", "self"), Ref("output", "y"), Dim.of("n") * 4)
    exe = executable(single((x,), (y,), (bind("n", "self.0", "self"),), (copy,)))
    np.testing.assert_array_equal(exe(self=np.ones(2, np.float32)), [1, 1])
    np.testing.assert_array_equal(exe["main"](self=np.ones(2, np.float32)), [1, 1])


def test_no_arguments_and_no_results() -> None:
    exe = executable(single((), (tensor("y", "f32", 0, 3),), (), ()))
    assert exe().shape == (0, 3)
    with pytest.raises(ArgumentError, match="@main takes no arguments"):
        exe(1)
    assert executable(single((), (), (), ()))() is None
