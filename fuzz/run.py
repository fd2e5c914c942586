"""Throw damaged and hostile input at every door of midfea; nothing may crash, hang or answer nonsense.

    python fuzz/run.py --minutes 1 [--only images model ...] [--seed N] [--cases N] [--json FILE]
    python fuzz/run.py --only images --case 0:1234        one case again, with its traceback

Each harness runs in a process of its own for that many minutes. A finding is an error of another kind
than the door promises, a crash, more than 5 s, more than 1 GB. Its input is written to fuzz/findings/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness import NAMES
from midfea.provenance import about, write_rows
from runner import Finding, Outcome, Plan, run


def main() -> None:
    given = _parser().parse_args()
    if given.case:
        seed, _, case = given.case.partition(":")
        first = int(case)
        plans = [
            Plan(name, int(seed), first, first + 1, seconds=3600, max_findings=1) for name in given.only
        ]
    else:
        plans = [
            Plan(name, given.seed, max_cases=given.cases, seconds=60 * given.minutes)
            for name in given.only
        ]
    outcomes = []
    print(f"{'harness':10} {'cases':>9} {'seconds':>8} {'a second':>9} {'findings':>9}")
    for plan in plans:
        outcomes.append(run(plan))
        _print(outcomes[-1], whole=bool(given.case))
        if given.json is not None:  # after each, so that a long run can be looked at
            write_rows([_row(outcome, plan.seed) for outcome in outcomes], given.json, [plan.seed])
    sys.exit(any(outcome.findings for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for each harness (default: 1)")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10**9, help="at most so many of each harness")
    parser.add_argument("--case", metavar="SEED:N", help="repeat one case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table's rows")
    return parser


def _row(outcome: Outcome, seed: int) -> dict[str, object]:
    return {
        "harness": outcome.name,
        "cases": outcome.cases,
        "seconds": round(outcome.seconds, 1),
        "findings": [f"{each.case} {each.last_line}" for each in outcome.findings],
        "about": about([seed]),
    }


def _print(outcome: Outcome, whole: bool) -> None:
    speed = outcome.cases / outcome.seconds if outcome.seconds else 0.0
    print(
        f"{outcome.name:10} {outcome.cases:9,} {outcome.seconds:8.1f} {speed:9.1f} "
        f"{len(outcome.findings):9}",
        flush=True,
    )
    if outcome.n_repeated:
        print(f"  and {outcome.n_repeated} more of the same kinds")
    for finding in outcome.findings:
        _print_finding(finding, whole)


def _print_finding(finding: Finding, whole: bool) -> None:
    print(f"  {finding.name} --case {finding.case}: {finding.last_line}", flush=True)
    if whole:
        print(finding.message)


if __name__ == "__main__":
    main()
