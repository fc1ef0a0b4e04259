"""torch's own operator tests (op_db): every operator imported, compiled, run and compared with torch.

    python benchmarks/conformance/run.py                        every operator, 20 samples each: a table and the totals
    python benchmarks/conformance/run.py --dynamic              every size above 1 symbolic, run at two sizes
    python benchmarks/conformance/run.py --ops softmax,cat      some operators
    python benchmarks/conformance/run.py --again failed         those that have not passed, once more

Needs torch and expecttest.  CPU, float32, forward.  Each operator runs in a process of its own, so one that hangs or
crashes costs no other; results are kept line by line, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch

from pliant.compiler.driver import compile as compile_module
from pliant.frontends.torch import import_torch

sys.path.insert(0, str(Path(__file__).parent))
from trial import Outcome, Together, beyond_core, known, operators, samples_of, try_operator, verdict

Record = dict[str, Any]


def record_of(name: str, op: Any, samples: int, dynamic: bool) -> Record:
    """All of one operator, as it is kept."""
    start = time.perf_counter()
    outcomes = try_operator(name, op, samples, dynamic)
    seconds = time.perf_counter() - start
    beyond = None if dynamic else beyond_core(op, samples)
    counted = Counter(json.dumps(asdict(o)) for o in outcomes)
    return {
        "op": name,
        "verdict": verdict(outcomes),
        "passed": sum(o.status == "pass" for o in outcomes),
        "samples": len(outcomes),
        "twice": sum(o.sizes > 1 for o in outcomes),
        "outcomes": [json.loads(text) | {"count": n} for text, n in counted.items()],
        "core": None if beyond is None else not beyond,
        "beyond": beyond or [],
        "seconds": round(seconds, 2),
    }


def guarded(name: str, op: Any, samples: int, dynamic: bool, limit: float) -> Record:
    """The record from a process of its own; what became of that process where it gave none."""
    receive, send = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        warnings.simplefilter("ignore")
        send.send(record_of(name, op, samples, dynamic))

    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    send.close()
    try:
        if receive.poll(limit):
            return receive.recv()  # type: ignore[no-any-return]
        reason = f"no answer within {limit:g} s"
    except EOFError:
        process.join()
        reason = f"the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
    return {"op": name, "verdict": "crash", "passed": 0, "samples": 0, "twice": 0, "core": None, "beyond": [],
            "outcomes": [asdict(Outcome("crash", reason)) | {"count": 1}], "seconds": limit}  # fmt: skip


def warm_up(op: Any) -> None:
    """What torch does once or need do only once, here, before the processes part."""
    from torch._export import utils

    # torch goes through all its operators at every export, which takes longer than the export of a sample.
    utils._collect_all_valid_cia_ops_for_namespace = cache(utils._collect_all_valid_cia_ops_for_namespace)
    model = Together(samples_of(op, 1))
    compile_module(import_torch(model, model.tensors).module, opt=1)
    beyond_core(op, 1)


def reason_of(record: Mapping[str, Any]) -> str:
    """The first failure, or else the first sample skipped."""
    outcomes = sorted(record["outcomes"], key=lambda o: (o["status"] == "pass", o["status"] == "skip"))
    first = outcomes[0] if outcomes else {"status": "pass", "reason": ""}
    return "" if first["status"] == "pass" else f"{first['status']}: {first['reason']}"


def stored(path: Path) -> dict[str, Record]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["op"]: record for record in map(json.loads, lines)}


def chosen(options: argparse.Namespace, have: Mapping[str, Record]) -> Iterator[tuple[str, Any]]:
    wanted = set(filter(None, options.ops.split(",")))
    at, of = map(int, options.shard.split("/"))
    other = stored(options.passed) if options.passed is not None else None
    for name, op in list(operators().items())[at::of]:
        if other is not None and (name not in other or other[name]["verdict"] != "pass"):
            continue
        if wanted:
            if name in wanted or op.name in wanted:
                yield name, op
        elif name not in have or options.again == "all" or (options.again == "failed" and _failed(have[name])):
            yield name, op


def _failed(record: Record) -> bool:
    return record["verdict"] not in ("pass", "skip")


def summary(records: Mapping[str, Record], expected: Mapping[str, str]) -> str:
    """The totals, and where they differ from what is known."""
    totals = Counter(r["verdict"] for r in records.values())
    samples, passed, twice = (sum(r[key] for r in records.values()) for key in ("samples", "passed", "twice"))
    out = [f"{len(records)} operators: " + ", ".join(f"{n} {s}" for s, n in totals.most_common())]
    out.append(f"{passed} of {samples} samples pass, {twice} of them at two sizes")
    core = Counter(r["verdict"] for r in records.values() if r["core"])
    if core:
        listed = ", ".join(f"{n} {s}" for s, n in core.most_common())
        out.append(f"{core.total()} of them decompose to core ATen alone: {listed}")
    new = [name for name, r in records.items() if _failed(r) and name not in expected]
    gone = [name for name in expected if name in records and records[name]["verdict"] == "pass"]
    if new:
        out.append(f"not known to fail: {', '.join(new)}")
    if gone:
        out.append(f"known to fail, but pass: {', '.join(gone)}")
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dynamic", action="store_true", help="every size above 1 symbolic")
    parser.add_argument("--ops", default="", help="names, with commas between")
    parser.add_argument("--samples", type=int, default=20, help="at most so many of an operator")
    parser.add_argument("--limit", type=float, default=240, help="seconds an operator may take")
    parser.add_argument("--passed", type=Path, help="only operators that pass in these results, of the other mode")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th operator, from the i-th on")
    parser.add_argument("--again", choices=("failed", "all"), help="run anew what has a result")
    parser.add_argument("--results", type=Path, help="where results are kept (JSON lines)")
    parser.add_argument("--summary", action="store_true", help="only the totals of what is kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # a process that forks must have no threads
    path = options.results or Path("build/conformance") / ("dynamic.jsonl" if options.dynamic else "static.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    have, expected = stored(path), known(options.dynamic)
    todo = [] if options.summary else list(chosen(options, have))
    if todo:
        warm_up(operators()["add"])
    done: dict[str, Record] = {}
    for name, op in todo:
        record = guarded(name, op, options.samples, options.dynamic, options.limit)
        done[name] = have[name] = record
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        core = "core" if record["core"] else ""
        why = reason_of(record)
        print(
            f"{name:44} {record['verdict']:8} {record['passed']:3}/{record['samples']:<3} {core:4} "
            f"{record['seconds']:6.1f} s  {why[:160]}",
            flush=True,
        )
    shown = done if options.ops else dict(sorted(have.items()))
    print(f"\n{summary(shown, expected)}")
    return int(any(_failed(r) and n not in expected for n, r in shown.items()))


if __name__ == "__main__":
    sys.exit(main())
