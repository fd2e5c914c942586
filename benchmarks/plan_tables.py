"""Write the tables of docs/scale.md, section Planning, from the rates that midfea ships.

    ./dev run python benchmarks/plan_tables.py

To be run after `benchmarks/rates.py --json src/midfea/scale/rates.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from midfea.cli.plan import duration, size
from midfea.scale.rates import stored

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
SHOWN = "midfea plan --images 1e8 --cores 512 --gpus 8 --bandwidth 3000"
PLANS = (
    "midfea plan --images 1e6 --cores 32",
    SHOWN,
    "midfea plan --images 1e9 --cores 2048 --bandwidth 10000 --dtype float16",
)


def printed(line: str) -> str:
    """What a command prints."""
    call = [sys.executable, "-c", "from midfea.cli import main; main()", *line.split()[1:]]
    return subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True).stdout


def table(rows: list[list[str]]) -> list[str]:
    """Markdown; the first row is the head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]


def rates_lines() -> list[str]:
    """The stored rates, and where they were measured."""
    rows = [
        ["rates", "file", "read", "decode", "compute", "write", "images/s of a core", "memory", "start"]
    ]
    for rates in stored().values():
        steps = (rates.read_seconds, rates.decode_seconds, rates.compute_seconds, rates.write_seconds)
        milliseconds = [f"{1000 * seconds:.2f} ms" for seconds in steps]
        rest = [
            f"{1 / rates.image_seconds:.0f}",
            size(rates.process_bytes),
            f"{rates.start_seconds:.1f} s",
        ]
        rows.append([f"`{rates.name}`", size(rates.image_bytes), *milliseconds, *rest])
    origin = rates.about
    where = f"Measured on {origin['machine']}, {origin['date'][:10]}, commit {origin['commit'][:8]}."
    return [*table(rows), "", where]


def plans_lines() -> list[str]:
    """One plan as it is printed, and three beside each other."""
    shown = [f"    {line}".rstrip() for line in printed(SHOWN).strip().splitlines()]
    made = [json.loads(printed(f"{line} --json"))["plan"] for line in PLANS]
    rows = [["", *(f"{plan['n_images']:.0e} images".replace("e+0", "e") for plan in made)]]
    rows += [
        ["limited by", *(plan["limited_by"] for plan in made)],
        ["time of `midfea extract`", *(duration(plan["seconds"]) for plan in made)],
        ["nodes of 32 cores", *(str(plan["n_nodes"]) for plan in made)],
        ["images to read", *(size(plan["images_bytes"]) for plan in made)],
        ["features written", *(size(plan["written_bytes"]) for plan in made)],
        ["read in all", *(f"{size(plan['read_bytes_per_second'])}/s" for plan in made)],
        ["written in all", *(f"{size(plan['written_bytes_per_second'])}/s" for plan in made)],
        ["a node's network", *(f"{size(plan['bytes_per_second_per_node'])}/s" for plan in made)],
        ["core hours", *(f"{plan['core_hours']:,.1f}" for plan in made)],
        ["training (estimate)", *(duration(plan["training_seconds"]) for plan in made)],
    ]
    commands = [f"    {line}" for line in PLANS]
    return [f"    {SHOWN}", "", *shown, "", "Three plans:", "", *commands, "", *table(rows)]


def main() -> None:
    page = PAGE.read_text()
    for name, lines in (("rates", rates_lines()), ("plans", plans_lines())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        page = "\n".join([before + begin, *lines, "", end + rest.partition(end)[2]])
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
