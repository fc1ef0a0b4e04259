"""Options, hypothesis profiles and a guard that every test run shares."""

import os
import sys

import pytest
from hypothesis import Phase, settings

FOLDERS = ("ir", "passes", "compiler", "runtime", "frontends")

# No deadlines: the machine is shared. In CI the examples are fixed, so that a failure there is never news by chance.
settings.register_profile("local", deadline=None)
# Shrinking takes minutes; the blob that is printed brings the example back, to be shrunk by whoever looks at it.
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expected output of the file tests")


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether expected output is to be rewritten instead of compared."""
    return bool(request.config.getoption("--bless"))


def _imported_twice() -> list[str]:
    """Modules of ours that were imported under a second name (`ir.dims` beside `pliant.ir.dims`)."""
    return sorted(name for name in sys.modules if name.partition(".")[0] in FOLDERS)


@pytest.fixture(autouse=True, scope="session")
def _one_name_per_module() -> object:
    yield
    twice = _imported_twice()
    if twice:
        pytest.fail(f"say `import pliant.ir`, never `import ir`; imported under a second name: {', '.join(twice)}")
