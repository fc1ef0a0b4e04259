"""Writes the parts of docs/ that come from the code; `--check` only says whether they are current (exit status 1).

    python docs/generate.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from plot_plan import PICTURE, picture

from pliant.ir.describe import call, family, summary
from pliant.ir.op import Op
from pliant.ir.registry import registry

DOCS = Path(__file__).resolve().parent


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")


def operators_page(ops: Iterable[type[Op]]) -> str:
    families: dict[str, list[type[Op]]] = {}
    for op in ops:
        families.setdefault(family(op), []).append(op)
    count = sum(map(len, families.values()))
    lines = [
        "# Operators",
        "",
        "Written by `make docs` from the operator registry (`ir/ops/`); change an op there, never here.",
        "",
        "Operands come first, then attributes by name. `?` marks an operand that may be left out (`none`), `*` any",
        f"number of operands. {count} operators in {len(families)} families.",
    ]
    for name, members in sorted(families.items()):
        lines += ["", f"## {name}", "", "| call | results | meaning |", "| --- | --- | --- |"]
        for op in sorted(members, key=lambda member: member.name):
            lines.append(f"| `{call(op)}` | {op.results or 'any'} | {cell(summary(op))} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    return {DOCS / "operators.md": operators_page(registry().values()), PICTURE: picture()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    check = parser.parse_args().check
    stale = {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        print(f"{'stale' if check else 'written'}: {path.relative_to(DOCS.parent)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        print("run `make docs` and commit what it writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
