"""`midfea reproduce`: the paper's tables, figures and claims, measured on the paper's data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import check_outputs, print_table, save_rows, warn
from midfea.cli.options import Cache, NoCache, Seed

if TYPE_CHECKING:
    from midfea.provenance import Row

# The names of midfea.reproduce.protocols, here so that --help need not import it.
PROTOCOL_HELP = {
    "ar-face": "AR, face recognition (session 1 to session 2).",
    "ar-gender": "AR, gender (the first 25 men and women to the others).",
    "yale-b": "Extended Yale B, face recognition (half and half).",
    "fg-net": "FG-NET, age (leave one person out).",
    "caltech101": "Caltech-101, objects (30 images of each class for training).",
    "caltech256": "Caltech-256, objects (30 images of each class for training).",
}

ALL = "all"  # rows

reproduce = typer.Typer(
    no_args_is_help=True,
    help="The paper's tables and figures, measured on the paper's data.",
    epilog="Example: midfea reproduce ar-face --data DATA --json ar-face.json",
)

Data = Annotated[Path, typer.Option(help="Folder of the data sets, or of this one.", show_default=False)]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the rows to this file; those of other methods are kept."),
]


def _protocol_command(name: str) -> Callable[..., None]:
    def command(
        data: Data,
        trials: Annotated[
            int | None,
            typer.Option(help="Splits or seeds. Default: 10 (AR, yale-b) or 3.", min=1),
        ] = None,
        method: Annotated[
            list[str] | None,
            typer.Option(
                "--methods",
                "--method",
                help="Only this row (may be repeated). all: the compared systems as well, which take "
                "hours on Caltech-101. Default: ours and raw pixels.",
                show_default=False,
            ),
        ] = None,
        json_file: Json = None,
        seed: Seed = 0,
        cache: Cache = None,
        no_cache: NoCache = False,
    ) -> None:
        from midfea.progress import progress_bars
        from midfea.reproduce.protocols import PROTOCOLS
        from midfea.reproduce.run import run_protocol
        from midfea.trials import default_cache

        protocol = PROTOCOLS[name]
        names = [m.name for m in protocol.methods] + [s.name for s in protocol.compared]
        for unknown in set(method or ()) - {*names, ALL}:
            listed = ", ".join(map(repr, [ALL, *names]))
            raise ValueError(f"no method {unknown!r} in {name}: choose from {listed}")
        if ALL in (method or ()):
            method = names
        check_outputs(json_file)
        folder = None if no_cache else cache or default_cache()
        try:
            with progress_bars():
                rows, missing = run_protocol(
                    name, protocol, data, trials=trials, seed=seed, methods=method, cache=folder
                )
        except KeyboardInterrupt:
            if folder is None:
                raise
            warn(f"interrupted; finished trials are kept in {folder}: run the same command to go on")
            raise typer.Exit(130) from None
        if missing:
            warn(f"not in this copy of the data: {', '.join(missing)}")
        print(protocol.title)
        n_trials = protocol.trials if trials is None else trials
        _finish(rows, json_file, range(seed, seed + n_trials))

    command.__doc__ = PROTOCOL_HELP[name]
    return command


for _name in PROTOCOL_HELP:
    reproduce.command(_name)(_protocol_command(_name))


@reproduce.command()
def figures(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this figure (may be repeated).")] = None,
    seed: Seed = 0,
) -> None:
    """All figures of the paper, as PNG and PDF."""
    from midfea.progress import progress_bars
    from midfea.reproduce.figures import make_figures

    output.mkdir(parents=True, exist_ok=True)
    with progress_bars():
        written = make_figures(data, output, seed=seed, only=only)
    print(f"{len(written)} files in {output}")


@reproduce.command()
def claims(
    data: Data,
    json_file: Json = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this claim (may be repeated).")] = None,
    seed: Seed = 0,
    cache: Cache = None,
) -> None:
    """What the paper says in words, as numbers: light, focus, projection."""
    from midfea.progress import progress_bars
    from midfea.reproduce.claims import measure_claims
    from midfea.trials import default_cache

    check_outputs(json_file)
    with progress_bars():
        rows = measure_claims(data, seed=seed, only=only, cache=cache or default_cache())
    _finish(rows, json_file, [seed])


@reproduce.command()
def results(
    folder: Annotated[Path, typer.Argument(help="Folder of the JSON files.")] = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "RESULTS.md"
    ),
) -> None:
    """Write RESULTS.md from the JSON files of the other commands."""
    from midfea.files import replacing
    from midfea.reproduce.results import results_page

    with replacing(output) as temporary:
        temporary.write_text(results_page(folder))
    print(f"Wrote {output}")


def _finish(rows: Sequence[Row], json_file: Path | None, seeds: Iterable[int]) -> None:
    """Print the table, ours beside the paper's, and write the rows; others in the file are kept."""
    from midfea.reproduce.results import COLUMNS, cells, with_kept

    print_table(COLUMNS, [cells(row) for row in rows])
    save_rows(with_kept(rows, json_file), json_file, seeds)
