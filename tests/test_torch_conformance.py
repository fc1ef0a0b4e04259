"""torch's own operator tests: a fixed part of benchmarks/conformance; all of it at fixed sizes in the slow tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

TRIAL = Path(__file__).parents[1] / "benchmarks/conformance/trial.py"
SHARDS = 24

STATIC = (
    "cat", "index_put", "nn.functional.adaptive_max_pool2d", "special.bessel_y0",
    "cummax", "frexp", "median", "lu_unpack",
)  # fmt: skip
DYNAMIC = (
    "matmul", "nn.functional.interpolate.linear", "nn.functional.pad.reflect",
    "logcumsumexp", "chunk", "linalg.det",
)  # fmt: skip


@pytest.fixture(scope="module")
def trial() -> Any:
    spec = importlib.util.spec_from_file_location("conformance_trial", TRIAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def failures(trial: Any, names: Sequence[str], samples: int, dynamic: bool) -> dict[str, Any]:
    found = trial.operators()
    tried = {name: trial.try_operator(name, found[name], samples, dynamic) for name in names}
    return {name: outcomes for name, outcomes in tried.items() if trial.verdict(outcomes) not in ("pass", "skip")}


def test_a_part_at_the_samples_sizes(trial: Any) -> None:
    assert failures(trial, STATIC, 5, dynamic=False) == {}


def test_a_part_at_symbolic_sizes_run_at_two(trial: Any) -> None:
    found = trial.operators()
    for name in DYNAMIC:
        outcomes = trial.try_operator(name, found[name], 4, dynamic=True)
        assert [o for o in outcomes if o.status not in ("pass", "skip")] == [], name
        assert any(o.sizes == 2 for o in outcomes), name  # those that are skipped have no second size


def test_a_wrong_result_is_found(trial: Any) -> None:
    """The comparison itself: another operator's values are not taken for the operator's."""
    check = trial.Trial("exp", dynamic=False)
    x = torch.tensor([0.5, 1.0])
    assert check.agree(x.exp(), x.exp()).status == "pass"
    assert check.agree(x.expm1(), x.exp()).status == "wrong"
    assert check.agree(x.exp().double(), x.exp()).status == "wrong"
    assert check.agree(x.exp()[None], x.exp()).status == "wrong"
    assert check.agree((x, 3), (x, 4)).status == "wrong"


def test_what_is_known_to_fail_is_there_and_has_a_reason(trial: Any) -> None:
    names = set(trial.operators())
    for dynamic in (False, True):
        known = trial.known(dynamic)
        assert set(known) <= names
        assert all(reason.strip() for reason in known.values())


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_everything_else_passes(trial: Any, shard: int) -> None:
    known = trial.known(False)
    names = [name for name in trial.operators() if name not in known][shard::SHARDS]
    assert failures(trial, names, 2, dynamic=False) == {}
