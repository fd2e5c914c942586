"""The documents say what is there: the reference is current, links lead somewhere, commands exist."""

import ast
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/midfea"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# Import names that are not their distribution's, or that come with another one.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "pydantic": "fastapi",
    "pillow_heif": "pillow-heif",
    "python_multipart": "python-multipart",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "starlette": "fastapi",
    "triton": "torch",
}
# midfea bench compares with the first two where they are; the last is part of every notebook.
INSTALLED_BY_HAND = {"faiss", "kymatio", "IPython"}


def test_reference_is_made_from_the_docstrings():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PLACE.read_text() == made.page(), "run: python docs/reference.py"


@pytest.mark.parametrize("name", ["MidFea", "MidFeaClassifier", "MidFeaRegressor"])
def test_help_explains_every_parameter_with_its_default(name):
    import midfea

    kind = getattr(midfea, name)
    parameters = kind.__doc__.partition("Parameters\n----------\n")[2].partition("Attributes\n")[0]
    entries = re.findall(r"^(\w+) : .*, default=(.*)\n    \S", parameters, re.MULTILINE)
    assert len(dict(entries)) == len(entries)  # each of them once
    defaults = {name: repr(value).replace("'", '"') for name, value in kind().get_params().items()}
    assert dict(entries) == defaults


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


def test_the_version_is_written_once():
    assert "version" in PROJECT["dynamic"]
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_every_package_that_is_imported_is_declared():
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = {re.split(r"[\[<>=]", line)[0] for requirements in lists for line in requirements}
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    imported -= {*sys.stdlib_module_names, *INSTALLED_BY_HAND, "midfea"}
    assert {DISTRIBUTIONS.get(name, name) for name in imported} <= declared


def test_every_part_has_its_place_in_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for path in PACKAGE.iterdir():
        if (path / "__init__.py").is_file():
            assert f"`{path.name}/`" in text, path.name
        elif path.suffix == ".py" and path.name[0] != "_":
            assert f"`{path.name}`" in text, path.name
