"""Real architectures: does each export, import, compile, and give torch's results at every size?

    python benchmarks/models.py [--only BERT,ViT] [--full] [--limit SECONDS] [--write]

Each model runs in a process of its own, so that one that fails ends no other.  `--full` measures the full-size
configurations instead; `--write` makes docs/models.md of all records kept so far.  Needs `transformers`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "models.md"
RECORDS = HERE / "models.json"
"""The records that the page is made of."""


def child(name: str, path: Path) -> int:
    """Measures one architecture, into a file."""
    from _models import CASES, FULL_SIZE
    from _models.measure import measure

    record: dict[str, Any] = {"name": name}

    def keep(now: dict[str, Any]) -> None:
        record.update(now)
        path.write_text(json.dumps(record))

    try:
        measure({**CASES, **FULL_SIZE}[name], keep)
    except Exception as failure:  # noqa: BLE001  whatever it is, the table shows it
        traceback.print_exc()
        keep({"failure": f"{type(failure).__name__}: {str(failure).strip()}"})
        return 1
    return 0


def run(name: str, limit: float) -> dict[str, Any]:
    """The record of one architecture, measured in another process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        command = [sys.executable, str(Path(__file__).resolve()), "--child", name, str(path)]
        try:
            code = subprocess.run(command, cwd=HERE.parent, timeout=limit, check=False).returncode
            ending = "" if code in (0, 1) else f"the process ended with {code}"
        except subprocess.TimeoutExpired:
            ending = f"not done after {limit:.0f} s"
        record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"name": name}
        return record | ({"failure": ending} if ending else {})


def line(record: dict[str, Any]) -> str:
    """One row of the table in the terminal."""
    worst = max(record.get("errors", {}).values(), default=float("nan"))
    shown = [f"{record['name']:20}", "right" if record.get("right") else "WRONG" if "right" in record else "-----"]
    shown += [f"{key} {record[key]:.1f}" for key in ("export_s", "import_s", "compile_s") if key in record]
    shown += [f"{record.get('ops', 0)} ops, {record.get('kernels', 0)} kernels, worst {worst:.1e}"]
    return "  ".join(shown) + ("\n    " + record["failure"].split("\n")[0] if "failure" in record else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--only", help="names, between semicolons; default all")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a model")
    parser.add_argument("--write", action="store_true", help="keep the records and make docs/models.md")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if options.child:
        return child(options.child[0], Path(options.child[1]))
    from _models import CASES, FULL_SIZE

    names = options.only.split(";") if options.only else list(FULL_SIZE if options.full else CASES)
    kept: dict[str, Any] = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    for name in names:
        record = run(name, options.limit)
        print(line(record), flush=True)
        if options.write:
            kept[name] = record
            RECORDS.write_text(json.dumps(kept, indent=1) + "\n")
    if options.write:
        from _models.page import page

        PAGE.write_text(page([kept[n] for n in CASES if n in kept], [kept[n] for n in FULL_SIZE if n in kept]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
