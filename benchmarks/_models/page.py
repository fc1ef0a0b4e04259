"""The page that shows the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]

_HEAD = """\
# Real models

`python benchmarks/models.py --write` makes this page. Each architecture is built by
[transformers](https://github.com/huggingface/transformers) (DLRM-like, LSTM and GRU in plain `torch.nn`) with random
weights, small but with all its parts. It is exported once by `torch.export` with bounded dynamic sizes, imported,
compiled once, and run at five sizes, batch 1, the least length and the bound among them. What moves is the batch, and
with it length, height and width where the model lets them: positions learnt for one size of image or sound fix those
(ViT, CLIP's vision, Whisper), and torch unrolls LSTM and GRU over a fixed length (12).

- **right**: every result at every size is within 1e-4 of torch's, as a part of the result's largest value; the worst
  is shown.
- **ops**: statements of the imported program; **kernels**: what they became.
- **memory**: bytes at the largest sizes, arena and results, without weights, arguments and the threads' scratch: as
  planned at compile time, against the most that torch's allocator held during the call. (Results are allocated when the
  call begins, so ours is their sum; torch makes the logits of a language model when all else is free again.)
- **seconds**: `export` is torch's own; `import` has torch's decomposition in it; `compile` is ours. On two cores.

"""


_COLUMNS = (
    *("model", "exports", "imports", "right", "worst error", "ops", "kernels"),
    *("memory", "torch's", "ratio", "export", "import", "compile"),
)


def page(small: Sequence[Record], whole: Sequence[Record]) -> str:
    """docs/models.md."""
    lines = [
        _HEAD + _row(*_COLUMNS),
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_row(*_cells(r)) for r in small),
    ]
    failures = [r for r in (*small, *whole) if "failure" in r]
    if whole:
        lines += ["", "## Full size", "", *_whole(whole)]
    lines += ["", "## What fails", ""]
    lines += [f"- **{r['name']}**: {r['failure'].splitlines()[0]}" for r in failures] or ["Nothing of the above."]
    return "\n".join([*lines, "", *_sizes(small)]) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(r: Record) -> list[str]:
    worst = max(r.get("errors", {}).values(), default=None)
    right = "" if "compile_s" not in r else "yes" if r.get("right") else "no"
    used = r["arena"] + r["outputs"] if "arena" in r else None
    ratio = f"{used / r['torch_peak']:.2f}" if used is not None and r.get("torch_peak") else ""
    return [
        r["name"],
        "yes" if "export_s" in r else "no",
        "yes" if "import_s" in r else "no",
        right,
        "" if worst is None else f"{worst:.0e}",
        str(r.get("ops", "")),
        str(r.get("kernels", "")),
        _bytes(used),
        _bytes(r.get("torch_peak")),
        ratio,
        *(f"{r[k]:.1f}" if k in r else "" for k in ("export_s", "import_s", "compile_s")),
    ]


def _bytes(n: int | None) -> str:
    if n is None:
        return ""
    return f"{n / 2**20:.1f} MiB" if n >= 2**20 else f"{n / 2**10:.0f} KiB"


def _whole(records: Sequence[Record]) -> list[str]:
    head = ("model", "parameters", "right", "worst error", "ops", "kernels", "memory", "torch's")
    lines = [
        _row(*head, "export", "import", "compile", "load", "peak of the process"),
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for r in records:
        cells = _cells(r)
        rss = f"{r['peak_rss'] / 2**30:.1f} GiB" if "peak_rss" in r else ""
        load = f"{r['load_s']:.1f}" if "load_s" in r else ""
        own = [cells[0], f"{r.get('parameters', 0) / 1e6:.0f} M", *cells[3:9], *cells[10:], load, rss]
        lines.append(_row(*own))
    said = "`load` packs the weights. The peak of the process has torch's model and its export in it, and both runs."
    return [*lines, "", said]


def _sizes(records: Sequence[Record]) -> list[str]:
    lines = ["## Sizes and facts", "", "What each was compared at, and the facts that the artifact checks.", ""]
    lines += [_row("model", "sizes", "facts"), "|---|---|---|"]
    for r in records:
        if r.get("errors"):
            facts = ", ".join(f"`{f}`" for f in r["facts"])
            lines.append(_row(r["name"], "; ".join(r["errors"]), facts))
    return lines
