"""How an imported model is called: as the model is, after an export of any form, in any process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim, export, register_dataclass, save  # noqa: E402

import pliant  # noqa: E402
from pliant import ArgumentError, LayoutError, LoadError, Model, from_torch  # noqa: E402

Pair = namedtuple("Pair", "first second")
N = Dim("n", max=9)


@dataclass
class State:
    x: Any
    y: Any = None
    scale: Any = None


register_dataclass(State)


class Plain(torch.nn.Module):
    def forward(self, x: Any, y: Any, scale: float = 2.0, mask: Any = None, *, shift: int = 0) -> Any:
        made = x * scale + y + shift
        return made if mask is None else made * mask


class Trees(torch.nn.Module):
    def forward(self, pair: Any, state: Any, named: Any, *rest: Any, **more: Any) -> Any:
        a, b = pair.first + rest[0], state.x * named["k"]
        return OrderedDict(
            one=Pair(a, [b, None, 3]),
            two=State(x=a - b, scale=more["last"] * 2),
            three=(deque([a], 4), {"n": b, 7: "text"}, 2.5),
        )


def rows(n: int = 3, start: float = 0.0) -> Any:
    return torch.arange(n) + float(start)


def same(got: Any, wanted: Any) -> None:
    """Equal trees of equal types; tensors have equal elements."""
    assert type(got) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(got, wanted)
    elif isinstance(wanted, State):
        same(vars(got), vars(wanted))
    elif isinstance(wanted, dict):
        assert list(got) == list(wanted)
        same(list(got.values()), list(wanted.values()))
    elif isinstance(wanted, (tuple, list, deque)):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            same(a, b)
    else:
        assert got == wanted


def tree_arguments(n: int = 3) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = (Pair(rows(n), None), State(x=rows(n, 2), scale=None), {"k": rows(n, 5)}, rows(n, 7))
    return args, {"last": rows(n, 1)}


@pytest.fixture(scope="module")
def trees() -> Model:
    args, kwargs = tree_arguments()
    return from_torch(Trees(), args, kwargs)


def test_trees_of_every_kind_go_in_and_come_out(trees: Model) -> None:
    args, kwargs = tree_arguments()
    same(trees(*args, **kwargs), Trees()(*args, **kwargs))
    x = torch.full((3,), 5.0)
    same(trees((x, None), State(x=x), {"k": x}, x, last=x), Trees()(Pair(x, None), State(x=x), {"k": x}, x, last=x))


def test_a_model_from_a_file_is_the_same_object(trees: Model, tmp_path: Path) -> None:
    trees.save(tmp_path / "m.pliant")
    args, kwargs = tree_arguments()
    for again in (
        pliant.load(tmp_path / "m.pliant"),
        Model.load(tmp_path / "m.pliant"),
        copy.copy(trees),
        copy.deepcopy(trees),
        pickle.loads(pickle.dumps(trees)),
    ):
        assert type(again) is type(trees)
        same(again(*args, **kwargs), Trees()(*args, **kwargs))
        assert again.source == trees.source
        assert again.inspect()["call"] == trees.inspect()["call"]
        assert repr(again).startswith("<Model forward(pair, state, named, last, *rest)")
        with pytest.raises(ArgumentError, match="without `last`"):
            again(*args)


@pytest.mark.parametrize("route", ["module", "program", "file"])
def test_a_call_by_name_after_an_export_by_position(route: str, tmp_path: Path) -> None:
    args, shapes = (rows(), rows(3, 4)), ({0: N}, {0: N})
    model: Any = Plain()
    if route == "module":
        exe = from_torch(model, args, dynamic_shapes=shapes)
    else:
        program = export(model, args, dynamic_shapes=shapes)
        save(program, tmp_path / "m.pt2")
        exe = from_torch(program if route == "program" else tmp_path / "m.pt2", dynamic_shapes=shapes)
    x, y = rows(5), rows(5, 8)
    for got in (exe(x, y), exe(x, y=y), exe(y=y, x=x)):
        same(got, Plain()(x, y))


def test_a_call_by_position_after_an_export_by_name() -> None:
    exe = from_torch(Plain(), (rows(),), {"mask": rows(3, 1), "y": rows(3, 4), "scale": 3.0})
    x, y, mask = rows(), rows(3, 4), rows(3, 2)
    wanted = Plain()(x, y, 3.0, mask)
    same(exe(x, y, 3.0, mask), wanted)
    same(exe(x, y, mask=mask, scale=3.0), wanted)
    same(exe(x, y, 3.0, mask, shift=0), wanted)


def test_defaults_may_be_left_out_or_said() -> None:
    exe = from_torch(Plain(), (rows(), rows(3, 4), 2.0, None), {"shift": 0})
    x, y = rows(3, 2), rows(3, 5)
    for got in (exe(x, y), exe(x, y, 2.0), exe(x, y, mask=None), exe(x, y, shift=0, scale=2.0)):
        same(got, Plain()(x, y))


def called(exe: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        exe(*args, **kwargs)
    assert "TreeSpec" not in str(caught.value)
    return str(caught.value)


def test_wrong_arguments_are_named_as_forward_names_them() -> None:
    exe = from_torch(Plain(), (rows(), rows()))
    x, forward = rows(), "forward(x, y, scale=2.0, mask=None, shift=0)"
    assert called(exe, x) == f"{forward} is called without `y`"
    assert called(exe) == f"{forward} is called without `x`"
    assert called(exe, x, x, 2.0, None, 0) == f"{forward} takes 4 arguments by position, but 5 were given"
    assert called(exe, x, x, maks=None) == f"{forward} has no argument `maks`: did you mean `mask`?"
    assert called(exe, x, x, y=x) == f"{forward}: `y` is given by position and by name"
    assert "argument `scale` was left out of the export" in called(exe, x, x, 3.0)
    assert "its default, None" in called(exe, x, x, mask=x)
    assert "argument `y` is None" in called(exe, x, None)
    fixed = from_torch(Plain(), (rows(), rows()), {"scale": 3.0, "mask": rows()})
    assert "argument `scale` is 4.0, but the model was exported for 3.0" in called(fixed, x, x, 4.0, x)
    assert "argument `scale` is 2.0" in called(fixed, x, x, mask=x), "the default is not what it was exported for"
    assert "without `mask`, but the model was exported with a value" in called(fixed, x, x, 3.0)


def test_wrong_trees_are_named_by_their_place(trees: Model) -> None:
    (pair, state, named, rest), kwargs = tree_arguments()
    wrong = {
        "`pair` is a tuple of 1, but": ((pair[0],), state, named, rest),
        "`pair[1]` is a Tensor, but the model was exported for None": ((rest, rest), state, named, rest),
        "`state.scale` is a Tensor": (pair, State(x=rest, scale=rest), named, rest),
        "`state` is a tuple of 1, but the model was exported for a State": (pair, (rest,), named, rest),
        "`named` is a dict without 'k' with 'z'; it needs 'k'": (pair, state, {"z": rest}, rest),
        "takes 4 arguments by position, as many as at the export, but 5": (pair, state, named, rest, rest),
        "without `rest[0]`": (pair, state, named),
    }
    for said, args in wrong.items():
        assert said in called(trees, *args, **kwargs)
    assert called(trees, pair, state, {"k": [1]}, rest, **kwargs).startswith("argument `named_k` of @main is a list")


def test_arguments_may_be_called_as_the_words_of_a_call() -> None:
    class Words(torch.nn.Module):
        def forward(self, out: Any, args: Any, kwargs: Any, weights: Any, self_: Any = None) -> Any:
            return out + 2 * args + 3 * kwargs + 4 * weights

    exe = from_torch(Words(), tuple(rows() for _ in range(4)))
    given = {"out": rows(3, 1), "args": rows(3, 2), "kwargs": rows(3, 3), "weights": rows(3, 4)}
    same(exe(**given), Words()(**given))
    same(exe(*given.values()), Words()(**given))
    same(exe.executable(**given), Words()(**given))
    buffer = torch.empty(3)
    assert exe.executable(*given.values(), out=buffer) is buffer
    same(buffer, Words()(**given))


def test_state_is_kept_and_goes_along(tmp_path: Path) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.count += x
            return self.count * 1

    exe = from_torch(Counter(), (rows(),))
    same(exe(torch.ones(3)), torch.ones(3))
    exe.save(tmp_path / "m.pliant")
    again = pliant.load(tmp_path / "m.pliant")
    same(again(torch.ones(3)), torch.full((3,), 2.0))
    same(exe(torch.ones(3)), torch.full((3,), 2.0))
    same(pickle.loads(pickle.dumps(again))(torch.ones(3)), torch.full((3,), 3.0))


def test_without_tensor_arguments_results_are_tensors() -> None:
    class Makes(torch.nn.Module):
        def forward(self, k: int = 3) -> Any:
            return torch.arange(4) * k, torch.ones(2, dtype=torch.bfloat16)

    exe = from_torch(Makes(), (3,))
    same(exe(), Makes()())
    same(exe(3), Makes()(3))
    varying = from_torch(Makes(), (3,), dynamic_shapes=(Dim.DYNAMIC,))
    same(varying(5), Makes()(5))


def test_an_argument_that_shares_memory_with_a_written_one_is_refused(tmp_path: Path) -> None:
    class Writes(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            a.add_(1)
            return b * 2

    exe = from_torch(Writes(), (rows(4), rows(4)))
    exe.save(tmp_path / "m.pliant")
    for model in (exe, pliant.load(tmp_path / "m.pliant")):
        t = torch.zeros(8)
        with pytest.raises(LayoutError, match="`a` and `b` share memory"):
            model(t[1:5], t[:4])
        same(model(a=t[:4], b=t[4:]), torch.zeros(4))
        assert t.tolist() == [1.0] * 4 + [0.0] * 4


def test_dims_make_a_model_for_one_size() -> None:
    exe = from_torch(Plain(), (rows(), rows()), dynamic_shapes=({0: N}, {0: N}), dims={"n": 4})
    same(exe(rows(4), rows(4)), Plain()(rows(4), rows(4)))
    with pytest.raises(pliant.ShapeError, match="expected 4"):
        exe(rows(5), rows(5))


def test_a_loaded_model_needs_no_torch(tmp_path: Path) -> None:
    """In a process that cannot import torch: numpy in, numpy out, the same structure."""
    exe = from_torch(Plain(), (rows(), rows()), {"mask": rows()}, {"x": {0: N}, "y": {0: N}, "mask": {0: N}})
    exe.save(tmp_path / "m.pliant")
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np, pliant
exe = pliant.load({str(tmp_path / "m.pliant")!r})
x = np.arange(4, dtype=np.float32)
got = exe(x, y=x, mask=x)
assert type(got) is np.ndarray and got.tolist() == [0, 3, 12, 27], got
assert exe.executable(x, x, x).tolist() == got.tolist()
try:
    exe(x)
except pliant.ArgumentError as error:
    print(error)
assert not any(name in sys.modules for name in ("lark", "sympy", "llvmlite"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "is called without `y`" in done.stdout


def test_torch_that_is_not_there_is_said() -> None:
    code = """
import sys
sys.modules["torch"] = None
import pliant
try:
    pliant.from_torch(object(), ())
except pliant.CompileError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("error: importing needs torch, which is not installed")


def test_a_class_that_is_not_there_is_named(tmp_path: Path) -> None:
    class Local(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return Inner(x=x + 1)

    @dataclass
    class Inner:
        x: Any

    register_dataclass(Inner)
    exe = from_torch(Local(), (rows(),))
    assert type(exe(rows())) is Inner
    exe.save(tmp_path / "m.pliant")
    with pytest.raises(LoadError, match="Inner, of which the model's arguments or results are, is not there"):
        pliant.load(tmp_path / "m.pliant")(rows())


def test_what_holds_no_model_is_refused(tmp_path: Path) -> None:
    pliant.compile("func @main(x: f32[n]) -> f32[n] { y = relu(x) return y }").save(tmp_path / "e.pliant")
    with pytest.raises(LoadError, match="is no imported model"):
        Model.load(tmp_path / "e.pliant")
    assert isinstance(pliant.load(tmp_path / "e.pliant"), pliant.Executable)


def test_default_dicts_come_back_with_their_factory() -> None:
    class Groups(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            found = defaultdict(list)
            found["a"].append(x + 1)
            return found

    got = from_torch(Groups(), (rows(),))(rows())
    assert type(got) is defaultdict
    assert got.default_factory is list
    same(got["a"], [rows() + 1])
    assert np.asarray(got["a"][0]).dtype == np.float32


def test_a_model_without_values_is_refused_by_name() -> None:
    for x in (torch.ones(2, 3), torch.ones(2, 3, device="meta")):
        with pytest.raises(pliant.CompileError, match="the model's `weight` and 1 more are without values"):
            from_torch(torch.nn.Linear(3, 3, device="meta"), (x,))


def test_an_import_that_goes_well_prints_nothing(capfd: Any) -> None:
    """Sizes are tried at which the model fails; torch prints such failures of its graphs."""

    class Joined(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cat([c.relu() for c in x.chunk(4)])

    exe = from_torch(Joined(), (torch.ones(16, 2),), dynamic_shapes=({0: Dim("n")},), allow_narrowing=True)
    same(exe(torch.ones(16, 2)), torch.ones(16, 2))
    assert capfd.readouterr().err == ""


def test_what_is_public_shows_itself_shortly() -> None:
    exe = from_torch(Plain(), (rows(), rows(3, 4)))
    assert repr(exe.module) == "<Module @main(x: f32[3], y: f32[3])>"
    assert repr(exe) == (
        "<Model forward(x, y, scale=2.0, mask=None, shift=0): @main(x: f32[3], y: f32[3]) -> (f32[3])>"
    )


def test_the_command_line_gives_sizes_names(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from pliant.compiler.cli.app import group

    save(export(Plain(), (rows(), rows()), dynamic_shapes=({0: N}, {0: N})), tmp_path / "m.pt2")
    (symbol,) = from_torch(tmp_path / "m.pt2").module.function("main").params[0].type.dims
    ran = CliRunner().invoke(group, ["import", str(tmp_path / "m.pt2"), "--rename", f"{symbol}=length"])
    assert ran.exit_code == 0, ran.output
    program = pliant.compile(tmp_path / "m.ir")
    assert "x: f32[length], y: f32[length]" in repr(program)
    same(program(rows(4), rows(4)), Plain()(rows(4), rows(4)))
