"""`midfea serve`: the teach page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.mending import check_workspace
from midfea.extras import require


def serve(
    model: Annotated[
        Path | None, typer.Argument(help="A model to open in the workspace.", show_default=False)
    ] = None,
    workspace: Annotated[
        Path, typer.Option(help="Folder of images and model; made if it is missing.")
    ] = Path("midfea-workspace"),
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than this machine's need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8765,
    token: Annotated[
        bool, typer.Option("--token", help="Ask for a token on this machine too: it has other users.")
    ] = False,
) -> None:
    """Teach a classifier in the browser: images by class, training, predictions and why.

    Everything stays on this machine, in the workspace: a plain folder with one folder of images for each
    class. Stop with Ctrl-C; nothing is lost.

    Examples:

        midfea serve
        midfea serve pets.midfea --workspace pets
    """
    require("web", "the teach page")
    from midfea.serve.server import run

    check_workspace(workspace, model)
    run(workspace, host, port, model, token)
