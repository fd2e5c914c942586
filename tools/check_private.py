"""Checks that parts meet at their public names: python tools/check_private.py FOLDER ...

- No private name (`_x`) of another module or object; members of the file's own classes are fine.
- No part of a model (`model`, `classifier`, ...) annotated with `Any`.
- In src: no file above 400 lines, no function above 60 (without its docstring), stated kernels excepted.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 60
KERNELS = {  # compiled loops, slower or harder to read in pieces
    "src/midfea/engines/cpu/search.py": {"_nearest"},
    "src/midfea/engines/torch/kernels.py": {"assign", "soft_convolution_pooled"},
}
PARTS = {"model", "classifier", "regressor", "estimator", "extractor", "head", "layer", "network"}
# Public by documentation (scikit-learn, namedtuple, os); names such as _repr_html_ are a protocol's.
PUBLIC = {
    "_parameter_constraints",
    "_replace",
    "_asdict",
    "_fields",
    "_make",
    "_exit",
    "_param_validation",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_") and name not in PUBLIC


def is_own(node: ast.Attribute) -> bool:
    return ast.unparse(node.value) in ("self", "cls", "super()")


def is_any(annotation: ast.expr | None) -> bool:
    kinds = ast.unparse(annotation).strip("'").split(" | ") if annotation else []
    return any(kind.split(".")[-1] == "Any" for kind in kinds)


def members(tree: ast.Module) -> Iterator[str]:
    """Names of what the module's own classes have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            yield from (member.name for member in node.body if isinstance(member, Function))
            yield from (member.target.id for member in node.body if isinstance(member, ast.AnnAssign))


def seam_problems(tree: ast.Module) -> Iterator[tuple[int, str]]:
    own = set(members(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if node.attr not in own and not is_own(node):
                yield node.lineno, f"private name of another object: {ast.unparse(node)}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                path = f"{getattr(node, 'module', None) or ''}.{alias.name}".strip(".")
                if any(is_private(name) for name in path.split(".")):
                    yield node.lineno, f"import of a private name: {path}"
        elif isinstance(node, ast.arg | ast.AnnAssign) and is_any(node.annotation):
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target).split(".")[-1]
            if name in PARTS:
                yield node.lineno, f"part of a model without a type: {name}: Any"


def long_functions(tree: ast.Module, excepted: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name not in excepted:
            docstring = ast.get_docstring(node, clean=False) or ""
            n_lines = node.end_lineno - node.lineno + 1 - len(docstring.splitlines())
            if n_lines > MAX_FUNCTION_LINES:
                yield node.lineno, f"function {node.name}: {n_lines} lines, above {MAX_FUNCTION_LINES}"


def check(path: Path) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text if path.suffix == ".py" else "")
    problems = [*seam_problems(tree)]
    if "src" in path.parts:
        problems += long_functions(tree, KERNELS.get(path.as_posix(), set()))
        if (n_lines := text.count("\n")) > MAX_FILE_LINES:
            problems.append((1, f"file: {n_lines} lines, above {MAX_FILE_LINES}"))
    return sorted(problems)


if __name__ == "__main__":
    paths = [path for folder in sys.argv[1:] for path in sorted(Path(folder).rglob("*.*"))]
    files = [path for path in paths if path.suffix in {".py", ".js", ".css"}]
    lines = [f"{path}:{line}: {problem}" for path in files for line, problem in check(path)]
    print("\n".join(lines) or f"Public names only: {len(files)} files")
    sys.exit(bool(lines))
