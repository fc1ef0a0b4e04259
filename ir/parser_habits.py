"""Syntax of other languages (Python, C, MLIR, Rust), where the parser stops at it, and how it is written here."""

from __future__ import annotations

import re

_NAME = r"[A-Za-z_][A-Za-z_0-9.]*"
_ATOM = rf"(?:@?{_NAME}|-?\d+(?:\.\d+)?)"
_STATEMENT = re.compile(rf"^\s*({_NAME})\s*=\s*({_ATOM})\s*(\*\*|==|!=|<=|>=|[@/<>&|^])\s*({_ATOM})\s*$")
_OPERATION = re.compile(rf"({_ATOM})\s*(\*\*|==|!=|<=|>=|[@/<>&|^])\s*({_ATOM})")
_CALLS = {
    "@": "matmul", "/": "div", "**": "pow", "<": "lt", ">": "gt", "<=": "le", ">=": "ge", "==": "eq", "!=": "ne",
    "&": "logical_and", "|": "logical_or", "^": "bitwise_xor",
}  # fmt: skip
_SUBSCRIPT = re.compile(rf"({_NAME})\s*\[([^\[\]]*)\]")
_KNOWN = "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool"
_NO_ENTRY = re.compile(r"[cu]\d+$|complex|str|uint|qint|f8")

_AT: tuple[tuple[str, str, str], ...] = (
    # what stands before (its end), what stands at the place (its start), what to do instead
    ("", r"//|/\*|--\s", "a comment starts with `#`"),
    (r"\bin\s*[\[(]\s*(?P<a>[^\[\](),]+),\s*(?P<b>[^\[\](),]+)[\])]\s*", r"[{,]|likely|$",
     "write `{a}..{b}` for a range, both ends included, or `{{{a}, {b}}}` for a set"),
    (r"\bin\s*[\[(](?P<a>[^\[\]()]+)[\])]\s*", r"[{,]|likely|$", "write `{{{a}}}` for a set, `1..8` for a range"),
    (r"\bin\s*range\((?P<a>[^(),]+),\s*(?P<b>[^(),]+)\)\s*", "", "a range is written `{a}..{b}`, both ends included"),
    (r"\bin\s*range\((?P<b>[^(),]+)\)\s*", "", "a range is written `0..{b}`, both ends included"),
    (r"\bin\s+(?P<a>\w+)\s*-\s*(?P<b>\w+)\s*", "", "a range is written `{a}..{b}`"),
    (r"\bin\s+(?P<a>\w+)\s*", r":\s*(?P<b>\w+)", "a range is written `{a}..{b}`, both ends included"),
    (r"\.\.", r"\.", "a range has two points: `1..8`"),
    (r"(?P<a>[\w*+]+)\s*<=?\s*(?P<n>\w+)\s*", r"<=?\s*(?P<b>[\w*+]+)",
     "one comparison a fact: `{a} <= {n}, {n} <= {b}`, or a range: `{n} in {a}..{b}`"),
    ("", r"(and\b|&&)", "facts are separated by `,`, and all of them hold"),
    ("", r"(or\b|\|\|)", "all facts hold together; one of several sizes is `n in {{8, 16}}`"),
    (r"where\b[^{{}}]*-", r">",
     "the results stand before the facts: `func @main(x: f32[n]) -> f32[n] where n in 1..8`"),
    (r"likely\b[^{{}}]*", r"where", "`where` stands before `likely`"),
    (r"likely\s+(?P<n>\w+)\s*", r"in\b", "usual sizes are listed: `likely {n} = 1, 128`"),
    (r"likely\s+(?P<n>\w+)\s*=\s*", r"[\[{{(](?P<a>[\d, ]+)[\]}})]", "usual sizes are listed: `likely {n} = {a}`"),
    (r"[\])]\s*where\s*\([^)]*", r"[<>=!]", "facts stand without brackets: `where n <= 8`"),
    (r"\b(?P<n>\w+)\s+", r"is\b", "a fact is a comparison, a range or a set: `{n} % 2 == 0`, `{n} in 1..8`"),
    (r"\b(?P<n>\w+)\s*", r"/\s*(?P<b>\w+)",
     "sizes are divided by `//`, rounded down: `{n} // {b}`, or up: `ceildiv({n}, {b})`"),
    (r"\[[^\[\]]*?(?P<n>\w+)\s*", r"(\^|\*\*?)\s*(?P<b>2)", "a square is a product: `{n}*{n}`"),
    (r"\[[^\[\]]*?(?P<n>\w+)\s*\*", r"\*\s*(?P<b>2)", "a square is a product: `{n}*{n}`"),
    (r"\[[^\[\]]*?\b(?P<a>\d+)", r"(?P<n>[A-Za-z]\w*)", "a product is written `{a}*{n}`"),
    (r"\[[^\[\]]*\b(?P<a>\w+)\s+", r"x\s+(?P<b>\w+)", "sizes are separated by `,`: `{a}, {b}`"),
    (r"\[[^\[\]]*\b(?P<a>\w+)\s+", r"(?P<b>\w+)", "sizes are separated by `,`: `{a}, {b}`"),
    (r"\[[^\[\]]*\b(?P<n>[A-Za-z]\w*)\s*", r"(=|:|<=?|>=?)\s*(?P<b>[\d.]+)",
     "facts stand after the result types: `where {n} <= 8`, `where {n} in 1..8`"),
    (r"\[[^\[\]]*", r"(\?|:|\.)", "every size has a name: `f32[n]`; the call says what it is"),
    (r",\s*", r"[\])}}]", "leave out the last `,`"),
    (r"\[[^\[\]]*", r"[)}}>]", "a `[` is not closed"),
    (r"return\b[^\n{{}}]*\n\s*", r"return\b", "a function has one `return`, which is its last statement"),
    (r"\([^()]*\n\s*", r"(return|yield)\b|\w[\w.]*\s*=|\}}", "a `(` is not closed"),
    (r"[{{}})\w]\s+", r"(?P<n>[A-Za-z_]\w*)\s*\}}", "say what it returns: `return {n}`"),
    (r"weight\s*", r"(?P<n>[A-Za-z]\w*)", "the names of weights start with `@`: `weight @{n} : f32[n]`"),
    (r"const\s*", r"(?P<n>[A-Za-z]\w*)", "the names of constants start with `@`: `const @{n} : f32[2] = [1, 2]`"),
    (r"\bfunc", r"(tion\b|\.func)", "a function starts with `func`: `func @main(x: f32[n]) -> f32[n]`"),
    (r"func\s+", r"(?P<n>[A-Za-z]\w*)", "the names of functions start with `@`: `func @{n}(...)`"),
    (r"(weight|const)\s+(?P<n>@\w+)\s*", r"=", "say its type: `{n} : f32[2]`"),
    (r"func\s*@\w+\s*\([^)]*\)\s*", r"(:|=>|=)", "the result types stand after `->`"),
    (r"->[^{{}}]*", r":", "the statements stand in braces: `{{ ... return y }}`"),
    (r"\(([^()]*,)?\s*", r"\*+\w+", "every parameter is written out, with its type"),
    (r"[(,]\s*(?P<n>\w+)\s+", r"(?P<t>(f|i|u|bf)\d+\s*\[|bool\s*\[)", "the type stands after `:`: `{n}: f32[n]`"),
    (r"[(,]\s*(f|i|u|bf)\d+\s*", r"\[[^\]]*\]\s*(?P<n>\w+)", "the name stands first: `{n}: f32[n]`"),
    (r"(func\s*@\w+\s*)\(([^()]*,)?\s*(?P<n>\w+)\s*", r"[,)]", "a parameter has a type: `{n}: f32[n]`"),
    (r"(?P<n>\w+)\s*:\s*", r"inout\b", "`inout` stands before the name: `inout {n}: f32[n]`"),
    (r"func\s*@\w+\s*\([^)]*:[^)]*\]\s*", r"=", "parameters have no defaults: the caller gives every one"),
    (r"\b(?P<t>f64|f32|f16|bf16|i64|i32|i16|i8|u8|bool)\s*", r"\((?P<a>[^()]*)\)", "sizes stand in `[ ]`: `{t}[{a}]`"),
    (r"\b(?P<t>f64|f32|f16|bf16|i64|i32|i16|i8|u8|bool)\s*", r"<(?P<a>[^<>]*)>", "sizes stand in `[ ]`: `{t}[{a}]`"),
    (r"\b(?P<t>f64|f32|f16|bf16|i64|i32|i16|i8|u8|bool)\s*", r"[,){{]",
     "a type has its sizes: `{t}[]` is one number, `{t}[n]` a vector"),
    (r":\s*", r"(Tensor|Array|ndarray|list|List|Optional|tuple|Tuple)\b",
     "a type is its elements and sizes: `f32[n, 4]`"),
    (r"match_cast\([^()]*,\s*\w+", r"\[(?P<a>[^\]]*)\]", "the type stands at the name: `y: f32[{a}] = match_cast(x)`"),
    ("", r"%\w*", "names have no `%` before them"),
    ("", r"\$\w*", "names have no `$` before them"),
    (r"where\b[^{{}}]*", r";", "facts are separated by `,`"),
    ("", r";", "leave out the `;`: a statement ends where the next begins"),
    ("", r"'", 'a string stands in `"`'),
    (r"(?P<n>\w+)\s*(:[^=\n]*)?", r":=", "a value is named with `=`: `{n} = ...`"),
    (r"(?P<n>\w+)\s*:", r"=", "a value is named with `=`: `{n} = ...`"),
    ("", r"(?P<n>\w+)\s*(\+|-|\*|/)=", "every value has a name of its own: `{n}2 = add({n}, y)`"),
    ("", r"(let|var|val|auto|local|mut)\s+(?P<n>\w+)", "leave out the first word: `{n} = ...`"),
    ("", r"(import|from|include|use)\b", "leave it out: all operators are known"),
    ("", r"(def|fn|function|define|proc|sub)\b", "a function starts with `func`: `func @main(x: f32[n]) -> f32[n]`"),
    ("", r"(param|parameter|variable|buffer)\s+@?(?P<n>\w+)", "a weight is `weight @{n} : f32[n]`"),
    ("", r"(module|program|class|graph|main|struct)\b",
     "functions stand in the file by themselves, without a block around"),
    ("", r"(private|public|export|extern|static|async|inout)\s+func", "leave out the first word"),
    ("", r"assert\b\s*(?P<a>[^\n;]*)",
     "facts of sizes stand after the result types: `where {a}`; those of values are `checked`"),
    ("", r"print\s*\(", "return the value: programs print nothing"),
    ("", r"(for|loop|repeat)\b", "operators work on whole tensors; a loop comes in a later version"),
    (r"(?P<x>\w+)\s+", r"if\s+(?P<c>\w+)\s+else\s+(?P<y>\w+)", "write `where({c}, {x}, {y})`"),
    (r"\)", r"\.(?P<n>\w+)\(", "give the result a name, then `y = {n}(t)`"),
    (r"\)\s*", r"\)", "a `)` too many"),
    ("", r"\.\d", "a number has digits before its point: `0.5`"),
    (r"\d", r"_\d", "leave out the `_`"),
    (r"\b0", r"x[0-9a-fA-F]+", "numbers are decimal"),
    (r"\d", r"[eE]\b", "an exponent has digits: `1e6`"),
    (r"=\s*(?P<n>[A-Za-z_]\w*)[ \t]+", r"(?P<a>[A-Za-z_]\w*)[ \t]*(\n|$|\}})", "operands stand in `( )`: `{n}({a})`"),
    (r"=\s*(?P<x>\w+)\s*", r",\s*(?P<y>\w+)", "a tuple stands in `( )`: `({x}, {y})`"),
)  # fmt: skip
_RULES = tuple(
    (re.compile(f"(?:{before.replace('{{', '{').replace('}}', '}')})\\Z") if before else None,
     re.compile(at.replace("{{", "{").replace("}}", "}")), say)
    for before, at, say in _AT
)  # fmt: skip


def habit(text: str, place: int) -> str:
    """How to write what stands at `place`, if it is known from elsewhere; empty otherwise."""
    start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    line = text[start : end if end >= 0 else len(text)].split("#")[0]
    column = place - start
    special = _operation(line) or _inside(line, column) or _subscript(line, column) or _element(text, place)
    if special:
        return special
    before, rest = text[max(0, place - 400) : place], text[place : place + 400]
    for left, right, say in _RULES:
        b, r = (left.search(before) if left is not None else None), right.match(rest)
        if r is not None and (b is not None or left is None):
            words = (b.groupdict() if b is not None else {}) | r.groupdict()
            return say.format(**{k: (v or "").strip() for k, v in words.items()})
    return ""


def _operation(line: str) -> str:
    """`z = x / 2` as a call."""
    found = _STATEMENT.match(line.rstrip().rstrip(";}"))
    if found is None:
        return ""
    name, x, sign, y = found.groups()
    return f"write `{name} = {_CALLS[sign]}({x}, {y})`"


def _inside(line: str, column: int) -> str:
    """`where(x > 0, x, y)`: an operation on values where an operand is wanted."""
    for found in _OPERATION.finditer(line):
        x, sign, y = found.groups()
        if found.start(2) <= column < found.end(2) and re.search(r"=\s*([\w.]+\(|if\b|\()", line[: found.start() + 1]):
            return f"every intermediate value has a name: write `t = {_CALLS[sign]}({x}, {y})` before, and `t` here"
    return ""


def _subscript(line: str, column: int) -> str:
    """`x[:, 0:32]` as a slice of each axis."""
    for found in _SUBSCRIPT.finditer(line):
        x, inner = found.groups()
        opening = line.index("[", found.start())
        operand = x not in _KNOWN.split() and re.search(r"(=|\(|,)\s*$", line[: found.start()])
        if operand and opening <= column < found.end():
            return _slices(x, [part.strip() for part in inner.split(",")])
    return ""


def _slices(x: str, parts: list[str]) -> str:
    if "..." in parts and parts[-1:] != ["..."]:
        parts = [p for p in parts if p != "..."]
        first = -len(parts)
    else:
        first, parts = 0, [p for p in parts if p != "..."]
    calls: list[str] = []
    for axis, part in enumerate(parts, first):
        if part in ("None", "newaxis"):
            calls.append(f"`unsqueeze({x}, axis={axis})`")
        elif ":" in part and part != ":":
            start, stop, step = (*part.split(":"), "", "")[:3]
            given = (("start", start.strip()), ("stop", stop.strip()), ("step", step.strip()))
            calls.append(f"`slice({x}, axis={axis}{''.join(f', {k}={v}' for k, v in given if v)})`")
        elif part != ":":
            calls.append(f"`take({x}, {part}, axis={axis})`")
    return "write " + ", then ".join(calls) if calls else f"use `{x}` itself"


def _element(text: str, place: int) -> str:
    """An MLIR type, or an element type that there is not."""
    rest = text[place : place + 80]
    mlir = re.match(r"(?:tensor|memref|vector)<([^<>]*)>", rest)
    if mlir:
        *sizes, dtype = mlir.group(1).split(",")[0].split("x")
        letters = iter("nmkhabcd")
        named = [next(letters, "s") if s in ("?", "") else s for s in sizes]
        known = {"i1": "bool"}.get(dtype, dtype)
        return f"write `{known}[{', '.join(named)}]`: every unknown size has a name" if known in _KNOWN.split() else ""
    word = re.match(r"([A-Za-z]\w*)\s*\[", rest)
    before = text[:place].rstrip()
    if word and before.endswith((":", "->")) and _NO_ENTRY.match(word.group(1)):
        return f"the element types are {_KNOWN}"
    return ""
