"""The documentation says what is so: generated pages are current, everything shown runs, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doc_pages import PAGES, ROOT, PageRun, matches, rewritten

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_generated_pages_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_is_what_happens(name: str, tmp_path: Path, bless: bool) -> None:
    path = ROOT / name
    page = path.read_text(encoding="utf-8")
    edits = PageRun(name, tmp_path).run(page)
    if bless and edits:
        path.write_text(rewritten(page, edits), encoding="utf-8")
        pytest.skip(f"rewritten: {name}")
    assert not edits, "\n\n".join(e.reason for e in edits) + "\n\n(rewrite them with --bless)"


def _anchors(page: str) -> set[str]:
    """The anchors that GitHub makes of headings."""
    titles = _HEADING.findall(_FENCED.sub("", page))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    for link in _LINK.findall(_FENCED.sub("", page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in _anchors(target.read_text(encoding="utf-8")), f"{name}: {link}"


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    assert matches("a ... c\n", "a b\nb c\n")
    assert not matches("a ... c\n", "a b\n")
    assert not matches("a.c", "abc")
