"""Complex numbers in torch models, as pairs of reals: one compiled program for all sizes, against torch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pliant  # noqa: E402
from pliant.ir.diagnostics import CompileError  # noqa: E402
from pliant.runtime.errors import DTypeError, LayoutError  # noqa: E402

Dim = torch.export.Dim
AUTO = Dim.AUTO


class Model(torch.nn.Module):
    def __init__(self, of: Callable[..., Any]) -> None:
        super().__init__()
        self.of = of

    def forward(self, *given: Any) -> Any:
        return self.of(*given)


def complexes(*shape: int, seed: int = 0, dtype: Any = torch.complex64) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=dtype)


def reals(*shape: int, seed: int = 0, dtype: Any = torch.float32) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=dtype)


def agree(
    model: Any,
    shapes: Any,
    example: Sequence[Any],
    others: Sequence[Sequence[Any]],
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Compiles the model once, and compares it at the example's sizes and at others."""
    is_module = isinstance(model, torch.nn.Module)
    model = model if is_module else Model(model)
    exe = pliant.from_torch(model, tuple(example), dynamic_shapes=tuple(shapes) if is_module else (tuple(shapes),))
    for given in (example, *others):
        with torch.no_grad():
            wanted = model(*given)
        torch.testing.assert_close(exe(*given), wanted, rtol=rtol, atol=atol, equal_nan=True)


# ---------------------------------------------------------------------------------------------------- arithmetic

POINTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda z, w: (z + w, z - w, z * w, z / w, -z, z + 2, 3 - z, z * 1j, (1 + 2j) / z, z.real * w),
    "parts": lambda z, w: (z.real, z.imag, z.abs(), z.angle(), z.conj() * w, z.conj().imag, torch.sgn(z), z.conj()),
    "functions": lambda z, w: (z.exp(), z.log(), z.sqrt(), z.square(), z.reciprocal(), z.log1p(), z.expm1(), z.log2()),
    "turns": lambda z, w: (z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(), z.tanh(), z.sigmoid(), z.asin(), z.acos()),
    "powers": lambda z, w: (z**2, z**3, z**0, z**0.5, z**-1, z**w, 2**z, torch.rsqrt(z), z.pow(1.7), z.pow(2j)),
    "areas": lambda z, w: (z.asinh(), z.atanh(), z.acosh(), z.atan()),
    "made": lambda z, w: (torch.complex(z.real, w.imag), torch.polar(z.abs(), w.real), torch.view_as_real(z * w)),
    "asked": lambda z, w: (z == w, z != z, z.isnan(), torch.isfinite(z), torch.where(z.real > 0, z, w), z.any(1)),
    "conversions": lambda z, w: (z.to(torch.complex128), z.real.to(torch.complex64) + w, (z * 0 + 3).real.int()),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTWISE)
def test_arithmetic(name: str) -> None:
    agree(
        POINTWISE[name], ({0: AUTO}, {0: AUTO}), (complexes(5, 3), complexes(5, 3, seed=1)),
        [(complexes(n, 3), complexes(n, 3, seed=1)) for n in (0, 1, 8)],
    )  # fmt: skip


def test_division_and_magnitude_neither_overflow_nor_vanish() -> None:
    inf = float("inf")
    z = torch.tensor([3e30 + 4e30j, 3e-30 - 4e-30j, 0j, 1e38 + 1e38j, complex(inf, 0), complex(inf, float("nan"))])
    w = torch.tensor([1e30 - 2e30j, 1e-30 + 1e-30j, 1 + 1j, 2e38 + 1e38j, 1j, 1 + 0j])
    agree(lambda z, w: (z.abs(), z[:4] / w[:4]), ({}, {}), (z, w), [])
    wide = torch.tensor([3e300 + 4e300j, 3e-300 - 4e-300j, 0j], dtype=torch.complex128)
    agree(lambda z: (z.abs(), z / (2 * z + 1e-301)), ({},), (wide,), [], rtol=1e-12)


MOVED: dict[str, Callable[[Any, Any], Any]] = {
    "shapes": lambda z, w: (z.reshape(-1), z.mH, z[1:], z[:, ::2], z[:, 0], z.unsqueeze(1), z.flip(1), z.roll(1, 1)),
    "joins": lambda z, w: (torch.cat([z, w]), torch.stack([z, w], -1), torch.cat([z, w.real], 1), *z.split([2, 1], 1)),
    "places": lambda z, w: (z[:, torch.tensor([2, 0])], z.masked_fill(z.real > 0, 2j)),
    "sums": lambda z, w: (z.sum(), z.sum(1), z.mean(1), z.cumsum(1), z.var(1), z.std(1), z.norm(dim=1)),
    "products": lambda z, w: (z @ w.mH, torch.einsum("ij,kj->ik", z, w), torch.nn.functional.linear(z, w), z @ w[0]),
    "constants": lambda z, w: (z + torch.tensor([1j, 2, -1j]), torch.full((2,), 1 - 2j), torch.ones_like(z)),
    "writes": lambda z, w: z.clone().mul_(w).add_(1j),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_and_sums_elements(name: str) -> None:
    agree(
        MOVED[name], ({0: AUTO}, {0: AUTO}), (complexes(4, 3), complexes(4, 3, seed=1)),
        [(complexes(n, 3), complexes(n, 3, seed=1)) for n in (1, 7)],
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------- at the border


class Holds(torch.nn.Module):
    """Weights, a buffer that is changed, and a constant, all complex."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(complexes(3, 4))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex64))
        self.register_buffer("turned", complexes(4, seed=3).conj())

    def forward(self, z: Any) -> Any:
        y = z @ self.weight + self.turned
        self.seen += y.sum(0)
        return y, self.seen.clone()


def test_weights_and_state_are_complex() -> None:
    model = Holds()
    exe = pliant.from_torch(model, (complexes(5, 3),), dynamic_shapes={"z": {0: Dim("n", max=64)}})
    own = Holds()
    own.load_state_dict(model.state_dict())
    own.seen.zero_()
    for n in (1, 5, 0, 9):
        with torch.no_grad():
            torch.testing.assert_close(exe(complexes(n, 3, seed=n)), own(complexes(n, 3, seed=n)))


def test_arguments_are_torchs_or_numpys_complex_arrays_and_nothing_else() -> None:
    exe = pliant.from_torch(Model(lambda z: z * z), (complexes(5, 3),), dynamic_shapes=(({0: AUTO},),))
    z = complexes(4, 3)
    torch.testing.assert_close(exe(z.conj()), z.conj() * z.conj())
    torch.testing.assert_close(exe(complexes(3, 4).T), complexes(3, 4).T ** 2)
    got = exe(z.numpy())
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.complex64
    np.testing.assert_allclose(got, z.numpy() ** 2, rtol=1e-6)
    for wrong in (reals(4, 3), z.to(torch.complex128), z.numpy().real, 1j):
        with pytest.raises(DTypeError, match="but the model wants complex64"):
            exe(wrong)


def test_an_argument_that_is_written_is_changed_in_place() -> None:
    def step(z: Any) -> Any:
        z.mul_(1j)
        return z.real.sum()

    exe = pliant.from_torch(Model(step), (complexes(5),), dynamic_shapes=(({0: AUTO},),))
    mine, own = complexes(3), complexes(3)
    torch.testing.assert_close(exe(mine), step(own))
    torch.testing.assert_close(mine, own)
    with pytest.raises(LayoutError, match="is a conjugated view"):
        exe(complexes(3).conj())


def test_operators_without_complex_numbers_are_refused_by_name() -> None:
    with pytest.raises(CompileError, match=r"`aten.cumprod.default` of complex numbers is not supported"):
        pliant.from_torch(Model(lambda z: z.cumprod(0)), (complexes(3),))


def test_torch_compile_takes_complex_tensors() -> None:
    model = Model(lambda z, w: (z * w.conj(), (z + 1j).abs()))
    fast = torch.compile(model, backend="pliant", dynamic=True)
    with torch.no_grad():
        for n in (4, 7, 3):
            z, w = complexes(n, 2), complexes(n, 2, seed=1)
            torch.testing.assert_close(fast(z, w), model(z, w))


# ------------------------------------------------------------------------------------------------------ transforms

LINES: dict[str, Callable[[Any], Any]] = {
    "fft": lambda x: torch.fft.fft(x),
    "ifft": lambda x: torch.fft.ifft(x, norm="ortho"),
    "rfft": lambda x: torch.fft.rfft(x, norm="forward"),
    "there and back": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
    "hermitian": lambda x: (torch.fft.ihfft(x), torch.fft.hfft(torch.fft.ihfft(x), n=x.shape[-1])),
    "two axes": lambda x: (torch.fft.fft2(x), torch.fft.rfft2(x, norm="ortho"), torch.fft.ifftn(x)),
    "two back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape),
    "shifts": lambda x: torch.fft.fftshift(torch.fft.fft(x)) + torch.fft.ifftshift(x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LINES)
def test_transforms_at_every_length(name: str, dtype: Any) -> None:
    exact = dtype is torch.float64
    agree(
        LINES[name], ({1: Dim("n", max=4096)},), (reals(3, 12, dtype=dtype),),
        [(reals(3, n, dtype=dtype),) for n in (1, 2, 7, 64, 90, 251)],
        rtol=1e-10 if exact else 1e-5, atol=1e-10 if exact else 2e-5,
    )  # fmt: skip


def test_transforms_of_lines_that_are_cut_and_filled_up() -> None:
    agree(
        lambda x: (torch.fft.rfft(x, n=16), torch.fft.fft(x, n=5), torch.fft.irfft(x + 1j, n=9),
                   torch.fft.rfft(x, dim=0), torch.fft.fftfreq(5, 0.5), torch.fft.fftfreq(6), torch.fft.rfftfreq(7)),
        ({0: AUTO},), (reals(4, 12),), [(reals(n, 12),) for n in (1, 9)],
    )  # fmt: skip


def test_transforms_of_complex_lines_of_long_lengths() -> None:
    lines = [(complexes(2, n),) for n in (1, 3, 1024, 1155, 1009)]
    agree(
        lambda z: (torch.fft.fft(z, norm="ortho"), torch.fft.irfft(z, norm="ortho") if z.shape[1] > 1 else z.real),
        ({1: AUTO},), (complexes(2, 12),), lines[1:], atol=2e-5,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- whole models


def rotated(q: Any, k: Any, turns: Any) -> Any:
    """Rotary embeddings as Llama's first code has them."""

    def pairs(x: Any) -> Any:
        return torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))

    shaped = turns.view(1, turns.shape[0], 1, turns.shape[1])
    return tuple(torch.view_as_real(pairs(x) * shaped).flatten(3).type_as(x) for x in (q, k))


class Rotary(torch.nn.Module):
    """With its turns as a complex buffer, of which a call takes as many as it has positions."""

    def __init__(self, size: int = 16, positions: int = 64) -> None:
        super().__init__()
        rates = 1.0 / (10000.0 ** (torch.arange(0, size, 2).float() / size))
        angles = torch.outer(torch.arange(positions).float(), rates)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, q: Any, k: Any) -> Any:
        return rotated(q, k, self.turns[: q.shape[1]])


def test_rotary_embeddings() -> None:
    b, t = Dim("b", max=8), Dim("t", max=64)
    shapes = {0: b, 1: t}
    agree(
        Rotary(), (shapes, shapes), (reals(2, 6, 4, 16), reals(2, 6, 2, 16, seed=1)),
        [(reals(n, m, 4, 16), reals(n, m, 2, 16)) for n, m in ((1, 1), (3, 64), (2, 1))],
    )  # fmt: skip


class LogMel(torch.nn.Module):
    """The front end of a speech model: windows, their spectra, their energies on the mel scale."""

    def __init__(self, size: int = 40, step: int = 16, bands: int = 8, center: bool = True) -> None:
        super().__init__()
        self.size, self.step, self.center = size, step, center
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("mel", torch.rand(bands, size // 2 + 1))

    def forward(self, x: Any) -> Any:
        spectrum = torch.stft(
            x, self.size, self.step, window=self.window, center=self.center, return_complex=True, pad_mode="reflect"
        )
        energies = self.mel @ (spectrum[..., :-1].abs() ** 2)
        logs = torch.clamp(energies, min=1e-10).log10()
        return torch.maximum(logs, logs.amax((-2, -1), keepdim=True) - 8.0)


@pytest.mark.parametrize("center", [True, False])
def test_log_mel_front_end(center: bool) -> None:
    sizes = ((1, 100), (2, 160), (3, 401), (1, 57))
    agree(
        LogMel(center=center), ({0: Dim("b", max=8), 1: Dim("samples", max=16000)},), (reals(2, 200),),
        [(reals(*s),) for s in sizes], atol=1e-4,
    )  # fmt: skip


def test_short_time_transform_and_its_inverse() -> None:
    window = torch.hann_window(16)

    def both(x: Any) -> Any:
        z = torch.stft(x, 16, 4, window=window, return_complex=True)
        return z, torch.istft(z * 2, 16, 4, window=window), torch.istft(z, 16, 4, window=window, length=20)

    agree(both, ({0: Dim("b", max=8), 1: Dim("samples", min=12, max=4000)},), (reals(2, 64),),
          [(reals(*s),) for s in ((1, 41), (3, 100), (2, 65))])  # fmt: skip
