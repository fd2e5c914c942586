"""The documents say what is there: the reference is current, links lead somewhere, commands exist."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "RESULTS.md", *(ROOT / "docs").glob("*.md")])


def test_reference_is_made_from_the_docstrings():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PLACE.read_text() == made.page(), "run: python docs/reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    from midfea.cli import app

    known = {command.callback.__name__ for command in app.registered_commands} | {"reproduce"}
    for line in re.findall(r"^ {4}(?:\./dev run )?midfea (\w+)", page.read_text(), re.MULTILINE):
        assert line in known, line
