"""The shape of the repository: one name per module, links and mapping in step, files short enough to read."""

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ir", "passes", "compiler", "runtime", "frontends")
CODE = ("pliant", *FOLDERS, "tests", "examples", "benchmarks", "docs")
DATA = (".lark", ".cuh", ".cu", ".h")
MAX_LINES = 500


def python_files() -> Iterator[Path]:
    for folder in CODE:
        for parent, _, names in os.walk(ROOT / folder):  # links are not followed: each file comes once
            yield from (Path(parent, name) for name in names if name.endswith(".py"))


def absolute_imports(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def test_no_folder_is_imported_by_its_bare_name() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: import of {name}"
        for file in python_files()
        for line, name in absolute_imports(file)
        if name.partition(".")[0] in FOLDERS
    ]
    assert not wrong, "say pliant.ir, or ..ir inside the package:\n" + "\n".join(wrong)


@pytest.mark.parametrize("folder", FOLDERS)
def test_links_are_relative_and_lead_to_the_folder(folder: str) -> None:
    link = ROOT / "pliant" / folder
    assert link.is_symlink()
    assert os.readlink(link) == f"../{folder}"


def test_every_file_is_short_enough_to_read() -> None:
    lengths = {file.relative_to(ROOT): len(file.read_text(encoding="utf-8").splitlines()) for file in python_files()}
    long = [f"{file}: {lines} lines" for file, lines in lengths.items() if lines > MAX_LINES]
    assert not long, f"more than {MAX_LINES} lines, split it:\n" + "\n".join(long)


def test_a_module_has_the_same_name_from_the_checkout_and_from_elsewhere(tmp_path: Path) -> None:
    code = "import sys, pliant.ir as m; print(m.__name__, sorted({'ir', 'passes'} & set(sys.modules)))"
    for cwd in (ROOT, tmp_path):
        done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[0] == "pliant.ir []"


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "links-lost"])
def test_the_wheel_holds_every_module_once(tmp_path: Path, links: bool) -> None:
    """The mapping in setup.py is what builds: the links add nothing, and nothing is missing where they were lost."""
    source = tmp_path / "source"
    for folder in ("pliant", *FOLDERS):
        skip = shutil.ignore_patterns("__pycache__", *(FOLDERS if folder == "pliant" and not links else ()))
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=skip)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        built = [name for name in archive.namelist() if name.endswith((*DATA, ".py", "py.typed"))]
    expected = {f"pliant/{name}" for name in ("__init__.py", "__main__.py", "errors.py", "py.typed")}
    for folder in FOLDERS:
        files = (file for file in (source / folder).rglob("*") if file.suffix in (".py", *DATA))
        expected |= {f"pliant/{file.relative_to(source).as_posix()}" for file in files}
    assert sorted(built) == sorted(expected)


@pytest.mark.slow
def test_the_source_distribution_holds_what_is_kept(tmp_path: Path) -> None:
    """Docs, examples and tests with their programs, so that it can be read and tested without the repository."""
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\n")
    files = [Path(name) for name in kept if name and not (ROOT / name).is_symlink() and not name.startswith(".")]
    if not files:
        pytest.skip("no repository")
    for file in files:
        (tmp_path / "source" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / "source" / file)
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "source", capture_output=True, check=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
        info = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert info is not None
        text = info.read().decode()
    assert {str(f) for f in files} <= held
    assert text.count("\nClassifier: ") >= 10
    assert "\nProject-URL: " in text
