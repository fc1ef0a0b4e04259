"""Makes docs/rivals.md of what the rivals' benchmark wrote.

python benchmarks/rivals/page.py RESULT.json ...    keep these results beside this file, and make the page
python benchmarks/rivals/page.py                    make the page of the kept ones again
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from math import exp, log
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "rivals.md"
OURS = "pliant_adapter"
NAMES = {"eager": "torch, eager", "ort": "ONNX Runtime", "openvino": "OpenVINO", OURS: "pliant"}
THREADS = "2"

# The benchmark's workloads; those that have not been measured are listed as such.
WORKLOADS = {
    "W0": "y = x + 1: the overhead of a call",
    "W1": "silu(gate) times an RMS norm",
    "W2": "softmax under a causal mask",
    "W3": "the MLP of a transformer",
    "W4": "an encoder layer of BERT-base",
    "W5": "BERT-base whole",
    "W6": "a decoding step of GPT-2 with a cache",
    "W7": "the prefill of a Llama block",
    "W8": "convolution: ResNet-18 on images of any size",
    "W9": "a small recommender (DLRM)",
}

HEAD = """# Against others

Models with random weights whose sizes move, each compiled once and run at every size by torch (eager), ONNX Runtime,
OpenVINO and pliant. Two threads on two cores; a process for each, in rounds that take turns, so that only ratios within
a line mean something, and differences under a tenth are ties. Every result at every size agrees with torch's. Where
others take an ONNX file, exporting it is a part of *from cold*; torch.export's part is in pliant's.

`python benchmarks/rivals/page.py` makes this page; [pliant_adapter.py](../benchmarks/rivals/pliant_adapter.py) is the
program measured.
"""


def main() -> None:
    """Keeps what is given, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for path in parser.parse_args().results:
        kept |= {name: _condensed(w) for name, w in json.loads(path.read_text()).items() if THREADS in w}
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    sections = [line for name in sorted(kept) for line in _section(kept[name])]
    PAGE.write_text("\n".join([HEAD, *sections, *_missing(kept), *_notes()]))


def _condensed(workload: dict[str, Any]) -> dict[str, Any]:
    """Medians in microseconds by size, and seconds from cold, by contestant."""
    contestants = {
        name: {
            "us": {shape: round(1e6 * lat["med"], 1) for shape, lat in c["lat"].items()},
            "cold_s": round(c["compile"]["cold_s"], 1),
            "wrong": sorted(c["fail"]),
        }
        for name, c in workload[THREADS].items()
        if name in NAMES
    }
    return {"what": workload["desc"], "shapes": workload["shapes"], "contestants": contestants}


def _section(workload: dict[str, Any]) -> Iterator[str]:
    found = {name: workload["contestants"][name] for name in NAMES if name in workload["contestants"]}
    others = [name for name in found if name != OURS]
    yield f"## {workload['what']}\n"
    yield "| size | " + " | ".join(NAMES[n] for n in found) + " | best other / pliant |"
    yield "|---|" + "--:|" * (len(found) + 1)
    ratios = []
    for shape in workload["shapes"]:
        if any(shape in c["wrong"] for c in found.values()):
            continue
        times = {name: c["us"][shape] for name, c in found.items()}
        ratios.append(min(times[n] for n in others) / times[OURS])
        best = min(times.values())
        cells = [f"**{_time(t)}**" if t == best else _time(t) for t in times.values()]
        yield f"| {shape} | " + " | ".join(cells) + f" | {ratios[-1]:.2f} |"
    mean = exp(sum(map(log, ratios)) / len(ratios))
    yield "| from cold | " + " | ".join(f"{c['cold_s']} s" for c in found.values()) + f" | mean {mean:.2f} |"
    yield ""


def _missing(kept: Mapping[str, Any]) -> Iterator[str]:
    """What the benchmark has beside: nobody should think that it was left out for its numbers."""
    absent = {name: what for name, what in WORKLOADS.items() if name not in kept}
    if absent:
        yield "## Not measured yet\n"
        yield f"Of the {len(WORKLOADS)} workloads {len(kept)} were measured with pliant. Those that were not:\n"
        yield from (f"- {name}, {what}" for name, what in absent.items())
        yield ""


def _time(us: float) -> str:
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.2f} ms"


def _notes() -> Iterator[str]:
    notes = HERE / "notes.md"
    if notes.exists():
        yield notes.read_text().rstrip() + "\n"


if __name__ == "__main__":
    main()
