"""Print the lowest version of every dependency that pyproject.toml allows, as constraints for pip.

python tools/lowest.py > lowest.txt && pip install -c lowest.txt 'dist/midfea-0.1.0.whl[test]'
"""

import re
import sys
import tomllib
from pathlib import Path

NOT_LOWERED = {"torch"}  # the test extra pins it: other versions may bring gigabytes


def lowest_versions(project):
    """name==version.* for each requirement "name>=version" of the project and its extras."""
    extras = project["optional-dependencies"]
    used = [
        *project["dependencies"],
        *(line for name in extras if name != "lint" for line in extras[name]),
    ]
    found = (re.fullmatch(r"([\w.-]+)>=([\w.]+)", line) for line in used)
    return sorted({f"{m[1]}=={m[2]}.*" for m in found if m and m[1] not in NOT_LOWERED})


if __name__ == "__main__":
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    sys.stdout.write("\n".join(lowest_versions(tomllib.loads(pyproject.read_text())["project"])) + "\n")
