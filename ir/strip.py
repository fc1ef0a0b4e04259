"""The module without what `infer` finds again: `infer(strip_types(m)) == m` for a module that `infer` made."""

from __future__ import annotations

from dataclasses import replace

from .diagnostics import CompileError
from .graph import (
    Apply,
    Assign,
    Bind,
    CallFunction,
    DimValue,
    Field,
    Function,
    GlobalRef,
    If,
    Literal,
    MatchCast,
    Module,
    Operand,
    Statement,
    Target,
    Var,
    While,
    targets_of,
)
from .infer import default_dtype, flatten
from .infer_bind import SCALAR
from .infer_function import FunctionInfer, Poison
from .types import DType, TensorType


def strip_types(module: Module) -> Module:
    """Leaves out the types of targets, and the dtypes of literals that follow from the operands beside them."""
    return replace(module, functions=tuple(_function(module, f) for f in module.functions))


def _function(module: Module, function: Function) -> Function:
    infer = FunctionInfer(module, function)
    statements = []
    for statement in function.body.statements:
        bare = _statement(statement, infer)
        statements.append(bare if _found_again(bare, statement, infer) else statement)
    return replace(function, body=replace(function.body, statements=tuple(statements)))


def _found_again(bare: Statement, statement: Statement, infer: FunctionInfer) -> bool:
    """Does inference make the statement of the bare one?  A type that was written otherwise than found must stay."""
    before = dict(infer.updated)
    try:
        same = infer.statement(bare) == statement
        if not same:
            infer.updated = before
            infer.statement(statement)
    except (CompileError, Poison):
        infer.types.update({t.name: t.type for t in targets_of(statement)})
        return False
    return same


def _statement(statement: Statement, infer: FunctionInfer) -> Statement:
    if isinstance(statement, Apply):
        wanted = statement.op.literal_dtype([_type_of(o, infer) for o in flatten(statement.operands)])
        operands = tuple(_operand(o, wanted) for o in statement.operands)
        if any(isinstance(o, (Literal, DimValue)) and o.dtype is not None for o in operands):
            operands = statement.operands  # a literal that keeps its dtype would give it to the others
        return replace(statement, operands=operands, targets=tuple(map(_target, statement.targets)))
    if isinstance(statement, MatchCast):
        return statement
    if isinstance(statement, Bind):
        return replace(statement, operand=_operand(statement.operand, SCALAR.dtype))
    if isinstance(statement, Assign):
        return replace(statement, operand=_operand(statement.operand, None), target=_target(statement.target))
    if isinstance(statement, (CallFunction, If, While)):
        return replace(statement, targets=tuple(map(_target, statement.targets)))
    return replace(statement, target=_target(statement.target)) if isinstance(statement, Field) else statement


def _type_of(operand: Operand, infer: FunctionInfer) -> TensorType | None:
    t = infer.types.get(operand.name) if isinstance(operand, Var) else None
    if isinstance(operand, GlobalRef):
        t = infer.module.global_type(operand.name)
    return t if isinstance(t, TensorType) else None


def _target(target: Target) -> Target:
    return replace(target, type=None)


def _operand(operand: Operand, wanted: DType | None) -> Operand:
    if not isinstance(operand, (Literal, DimValue)) or operand.dtype is None:
        return operand
    bare = replace(operand, dtype=None)
    found = wanted or default_dtype(bare)
    if isinstance(bare, Literal) and not _reads_back(bare.value, found):
        return operand
    return bare if operand.dtype is found else operand


def _reads_back(value: bool | int | float, dtype: DType) -> bool:
    """Would the bare literal be taken for one of `dtype`?"""
    if isinstance(value, float):
        return dtype.is_float
    return dtype.is_bool if isinstance(value, bool) else dtype.is_int
