"""Formatting keeps the meaning, every comment, and single blank lines; formatting again changes nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.ir.diagnostics import CompileError
from pliant.ir.format import format_text
from pliant.ir.infer_module import infer_module
from pliant.ir.parser import parse_module
from tests.random_programs import programs

UGLY = """# The licence.

# About up.
weight @up   :f32[h,4*h]   # the first
   where h%16==0
func @main(x:f32[n,h])   # behind the head
 ->f32[n,4*h]
  where n in 0..1024   # behind the facts
{   # behind the brace

  # Projects.
  a=matmul(x,@up) # behind a


  # Two lines,
  # and a blank one.

  b = gelu(
     a   # inside b
  )
  s = "none"
  return b # behind return
  # before the end
}
# last
"""


def test_layout() -> None:
    assert (
        format_text(UGLY.replace('  s = "none"\n', ""))
        == """# The licence.

# About up.
weight @up: f32[h, 4*h] where h % 16 == 0  # the first

# behind the facts
# behind the brace
func @main(x: f32[n, h]) -> f32[n, 4*h]  # behind the head
    where n in 0..1024
{
    # Projects.
    a = matmul(x, @up)  # behind a

    # Two lines,
    # and a blank one.

    b = gelu(a)  # inside b
    return b  # behind return
    # before the end
}
# last
"""
    )


def comments(text: str) -> list[str]:
    return sorted(c.rstrip() for c in re.findall(r"#[^\n]*", text))


@given(programs(), st.data())
@settings(max_examples=60)
def test_no_comment_is_lost_and_formatting_is_done_once(text: str, data: st.DataObject) -> None:
    lines = []
    for number, line in enumerate(text.split("\n")):
        for _ in range(data.draw(st.integers(0, 2))):
            lines.append(data.draw(st.sampled_from(["", f"  # own {number}", "#", "\t# }"])))
        lines.append(line + data.draw(st.sampled_from(["", f" # behind {number}"])))
    messy = "\n".join(lines)
    formatted = format_text(messy)
    assert parse_module(formatted) == parse_module(messy)
    assert comments(formatted) == comments(messy)
    assert format_text(formatted) == formatted


def test_types_are_written_on_request() -> None:
    text = "func @f(x: f32[n]) -> f32[n] {\n    a = add(x, 1)  # one\n    return a\n}\n"
    assert format_text(text) == text
    typed = format_text(text, types=True)
    assert typed == text.replace("a = add(x, 1)", "a: f32[n] = add(x, f32(1.0))")
    assert parse_module(typed) == infer_module(parse_module(text))


def test_what_does_not_parse_is_refused() -> None:
    with pytest.raises(CompileError):
        format_text("func @f(")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n# a\n\n\n# b\n"])
def test_hardly_anything(text: str) -> None:
    assert comments(format_text(text)) == comments(text)
    assert format_text(format_text(text)) == format_text(text)
