"""The documentation says what is so: generated pages are current, everything shown runs, links lead somewhere."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from pliant.compiler.cli.app import group
from tests.doc_pages import PAGES, ROOT, PageRun, matches, rewritten

SVG = "{http://www.w3.org/2000/svg}"
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


def test_boxes_of_the_plan_lie_apart() -> None:
    """What the picture shows as memory at the same time does not overlap, and nothing lies outside."""
    root = ElementTree.parse(ROOT / "docs" / "img" / "transformer_block_plan.svg").getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    found = [[float(r.attrib[k]) for k in ("x", "y", "width", "height")] for r in root.iter(f"{SVG}rect")]
    assert len(found) > 10
    for x, y, w, h in found:
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for (x, y, w, h), (x2, y2, w2, h2) in itertools.combinations(found, 2):
        apart = 0.15  # coordinates are rounded to a tenth
        beside = x + w <= x2 + apart or x2 + w2 <= x + apart
        above = y + h <= y2 + apart or y2 + h2 <= y + apart
        assert beside or above


@pytest.mark.parametrize("name", group.list_commands(click.Context(group)))
def test_every_command_shows_examples_that_it_understands(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    shown = re.findall(r"^  pliant (\S+) ?(.*?)(?:  .*)?$", command.epilog or "", re.MULTILINE)
    assert shown
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    for called, arguments in shown:
        assert called == name
        options = {word for word in arguments.split() if word.startswith("-") and word != "-"}
        assert options <= known, f"pliant {called} {arguments}"


def test_what_is_not_so_is_found_and_rewritten(tmp_path: Path) -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    edits = PageRun("page", tmp_path).run(page)
    assert [e.lines for e in edits] == [("2",)]
    assert rewritten(page, edits) == page.replace("3", "2")


@pytest.mark.parametrize(
    "page",
    [
        "```ir\nfunc @main(x: f32[n]) -> f32[n] { return y }\n```\n",
        "```ir refused\nfunc @main(x: f32[n]) -> f32[n] { return x }\n```\n",
        "```python raises\nx = 1\n```\n",
        "```console\n$ pliant ops nothing\n```\n",
        "```console\n$ ls\n```\n",
        "```sh\nmake nothing\n```\n",
        "```basic\n10 GOTO 10\n```\n",
    ],
)
def test_what_no_rewriting_can_mend_fails(page: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        PageRun("page", tmp_path).run(page)


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    assert matches("a ... c\n", "a b\nb c\n")
    assert not matches("a ... c\n", "a b\n")
    assert not matches("a.c", "abc")
