"""Peak over the largest live set for buffers in CSV files (MiniMalloc's benchmark), at two budgets.

python benchmarks/planner.py FOLDER_OR_CSV... [--budgets 0.05 3]
"""

from __future__ import annotations

import argparse
import sys

from pliant.ir.diagnostics import CompileError
from pliant.passes.planner import minimalloc_table, table_text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help="CSV files, or folders of them, with columns id,lower,upper,size")
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.05, 3.0], help="seconds a file")
    arguments = parser.parse_args()
    try:
        rows = minimalloc_table(arguments.paths, arguments.budgets)
    except CompileError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(table_text(rows, arguments.budgets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
