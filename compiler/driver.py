"""Compiling: from a program to an executable, with every stage at hand for those who want to look."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ..ir.diagnostics import error
from ..ir.graph import Module
from ..ir.interpret import const_array
from ..ir.loops import Kernel, Program
from ..ir.parser import parse_module
from ..ir.printer import print_module
from ..ir.verify import verify_module
from ..passes.graph.specialize import Specialize
from ..passes.lower import Lowered, lower
from ..passes.pass_base import faults_of, run_passes
from ..runtime import Artifact, Executable
from ..runtime.contract import Contract
from .artifact_writer import build_artifact, describe, sealed
from .codegen.host import HostCode, emit_host
from .codegen.kernel import emit_kernels
from .codegen.llvm import assembly, compile_many, optimized_ir, resolve
from .codegen.pool import pool_ir
from .codegen.workers import WORKERS
from .pipeline import graph_pipeline, is_contraction, run_loop_passes
from .progress import Progress, Stage
from .target import Target

LONG_HOST = 100_000
"""Characters of host code beyond which it is not optimised: long straight lines, run once a call, slow to compile."""

FEW_CONTRACTIONS = 4
"""Fewer contractions than this compile in one object: their micro-kernels cost as much as they do."""

Source = Module | str | Path


@dataclass
class Compilation:
    """One module on its way to an artifact; each stage is made when first asked for.

    `target` is resolved: the features are those of the machine or of the processor named.
    """

    module: Module
    target: Target
    opt: int = 2
    progress: Progress = field(default=lambda _stage: None)

    @cached_property
    def graph(self) -> Module:
        """The typed graph of primitive ops."""
        self.progress(Stage("checking types"))
        return run_passes(graph_pipeline(), self.module, [lambda _name, module: verify_module(module, typed=False)])

    @cached_property
    def lowered(self) -> Lowered:
        """Kernels as the fusion made them, with their plans."""
        graph = self.graph
        self.progress(Stage("fusing"))
        with faults_of("lower", graph):
            return lower(graph, self.target.vector_bytes if self.target.kind == "cpu" else None)

    @cached_property
    def program(self) -> Program:
        """Loops that code is generated from."""
        fused = self.lowered.program
        self.progress(Stage("scheduling loops"))
        with faults_of("loop passes", fused):
            return run_loop_passes(fused, self.target)

    @cached_property
    def llvm_modules(self) -> dict[str, str]:
        """LLVM IR before optimisation, one text an object."""
        program = self.program
        with faults_of("code generation", program):
            parts = {
                name: emit_kernels(self._told("generating code", picked), self.target, picked.start)
                for name, picked in split(program).items()
            }
            arch = self.target.triple.partition("-")[0]
            return {"host": sealed(self.host, self.contract), "pool": pool_ir(arch), **parts}

    def _told(self, stage: str, picked: range) -> Iterator[Kernel]:
        """Kernels, each with word of how many are done."""
        for i in picked:
            self.progress(Stage(stage, i, len(self.program.kernels)))
            yield self.program.kernels[i]

    @cached_property
    def host(self) -> HostCode:
        """The host program's code."""
        return emit_host(self.program)

    @cached_property
    def contract(self) -> Contract:
        """What the runtime must know of the program."""
        return describe(self.program, self.host, self.target, f"pliant {version('pliant')}")

    def optimized(self) -> dict[str, str]:
        """LLVM IR after optimisation."""
        return {name: optimized_ir(text, self.target, self.opt) for name, text in self._shown().items()}

    def assembly(self) -> dict[str, str]:
        """Machine code as text."""
        return {name: assembly(text, self.target, self.opt) for name, text in self._shown().items()}

    def _shown(self) -> dict[str, str]:
        return {name: text for name, text in self.llvm_modules.items() if name != "pool"}

    @cached_property
    def cuda(self) -> str:
        """CUDA C++ of the kernels, before NVRTC."""
        if self.target.kind != "cuda":
            raise error("CUDA C++ is for CUDA targets", helps=("add `--target cuda:sm_90`",))
        from .codegen.cuda import emit_cuda  # an eighth of what importing the compiler takes

        fused = self.lowered.program
        self.progress(Stage("generating code"))
        with faults_of("code generation", fused):
            return emit_cuda(fused, self.target)

    def artifact(self, weights: Mapping[str, np.ndarray] | None = None) -> Artifact:
        """Generates machine code and puts the artifact together; nothing is written to disk."""
        if self.target.kind == "cuda":
            raise error("running on CUDA comes in a later version", helps=("`--emit cuda` prints the CUDA C++",))
        WORKERS.prepare()  # starts while the stages before machine code run
        modules = self.llvm_modules
        with faults_of("machine code", self.program):
            levels = [0 if name == "host" and len(text) > LONG_HOST else self.opt for name, text in modules.items()]
            objects = compile_many(list(modules.values()), self.target, levels, done=self._compiled(list(modules)))
        from .emit import plan_json

        extras = {
            "plan.json": plan_json(self),
            "ir/source.ir": print_module(self.module).encode(),
            "ir/graph.ir": print_module(self.graph).encode(),
        }
        return build_artifact(
            self.contract,
            dict(zip(modules, objects, strict=True)),
            weights,
            {c.name: const_array(c) for c in self.graph.consts},
            extras,
        )

    def _compiled(self, names: list[str]) -> Callable[[int], None]:
        """Told the number of an object that is compiled, says how many kernels are."""
        counts = {name: len(picked) for name, picked in split(self.program).items()}
        total, done = len(self.program.kernels), 0
        self.progress(Stage("compiling", 0, total))

        def tell(number: int) -> None:
            nonlocal done
            if count := counts.get(names[number], 0):
                done += count
                self.progress(Stage("compiling", done, total))

        return tell


def split(program: Program) -> dict[str, range]:
    """Kernels dealt to objects that compile side by side.

    Contractions, which stand last, share micro-kernels, of which every object has its own: few stay together.
    """
    total = len(program.kernels)
    light = sum(1 for k in program.kernels if not is_contraction(k))
    dealt = {
        **_halves("kernels", range(light), 2),
        **_halves("contractions", range(light, total), FEW_CONTRACTIONS),
    }
    return {name: picked for name, picked in dealt.items() if picked}


def _halves(name: str, positions: range, few: int) -> dict[str, range]:
    if len(positions) < few:
        return {name: positions}
    middle = len(positions) // 2
    return {f"{name}0": positions[:middle], f"{name}1": positions[middle:]}


def read_source(source: object) -> Module:
    """A module from itself, from text, or from the path of a file."""
    if isinstance(source, Module):
        return source
    if not isinstance(source, (str, Path)):
        kinds = "a text, the path of a file, or what `parse` gives"
        helps = ("a torch module is imported: `pliant.from_torch(model, example_inputs)`",) if callable(source) else ()
        raise error(f"a program is {kinds}, not of the type {type(source).__name__}", helps=helps)
    if isinstance(source, str) and source.strip() and "\n" not in source and "{" not in source:
        named = re.fullmatch(r"[\w./~-]+|.*\.[A-Za-z]\w*", source)
        if "\0" in source or not (named or os.path.exists(source)):
            raise error(
                f"`{source}` is neither a program nor the path of one",
                helps=("a program has a function: `func @main(x: f32[n]) -> f32[n] { y = relu(x) return y }`",),
            )
        source = Path(source)
    if isinstance(source, Path):
        try:
            return parse_module(source.read_text(encoding="utf-8"), str(source))
        except OSError as fault:
            raise error(f"cannot read {source}: {fault.strerror}") from fault
        except UnicodeDecodeError as fault:
            raise error(f"{source} is not UTF-8 text: {fault.reason} at byte {fault.start}") from fault
        except ValueError as fault:
            raise error(f"{str(source)!r} is no path: {fault}") from fault
    return parse_module(source)


def specialized(module: Module, dims: Mapping[str, int] | None) -> Module:
    """The module with some symbols replaced by sizes; CompileError for an unknown name, or what is no size."""
    if not isinstance(dims or {}, Mapping):
        raise error("sizes are given by name", helps=('write `dims={"n": 16}`',))
    for name, size in (dims or {}).items():
        if type(size) is not int or size < 0:
            raise error(f"the size of `{name}` is given as {size!r}", helps=(f'write `dims={{"{name}": 16}}`',))
    return Specialize.of(dims).run(module) if dims else module


def compile(
    source: Source,
    *,
    target: str = "cpu",
    weights: Mapping[str, np.ndarray] | None = None,
    dims: Mapping[str, int] | None = None,
    opt: int = 2,
    progress: Progress | None = None,
) -> Executable:
    """Compiles a module, text or file for `target` (`cpu`, `cpu:x86-64-v3`, ...) and loads it.

    `weights` (arrays by name) are bound, checked and kept in what `save` writes; without them the executable asks for
    them at load.  `dims` gives symbols a size for good, as `--dim` does (`{"n": 16}`).  `opt` is LLVM's level, 0 to 3.
    `progress` is called with a `Stage` when each stage begins.  Raises CompileError with diagnostics for whatever is
    wrong with the program, LoadError for weights that do not fit, PassError for a fault of the compiler.
    """
    if type(opt) is not int or not 0 <= opt <= 3:
        raise error(f"the level of optimisation is given as {opt!r}", helps=("`opt` is 0, 1, 2 or 3",))
    if progress is not None and not callable(progress):
        raise error("`progress` is to be called, and cannot be", helps=("write `progress=print`",))
    module = specialized(read_source(source), dims)
    compilation = Compilation(module, resolve(Target.parse(target)), opt)
    if progress is not None:
        compilation.progress = progress
    artifact = compilation.artifact(weights)
    return Executable(artifact, lazy=True)
