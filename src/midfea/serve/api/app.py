"""The application: a router for each resource, the page's files, one form for all failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from midfea import __version__
from midfea.serve.api import classify, inspect, state, teach, transfer
from midfea.serve.api.current import CurrentModel
from midfea.serve.api.failures import answer_failures
from midfea.serve.api.pages import PageFiles, api_page
from midfea.serve.api.services import Services
from midfea.serve.store.workspace import Workspace

ROUTERS = tuple(module.router for module in (state, teach, classify, inspect, transfer))


def create_app(workspace: Workspace, current: CurrentModel | None = None) -> FastAPI:
    """The application for one workspace, without the guard."""
    services = Services(workspace, current or CurrentModel(workspace))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.pools["answer"].submit(services.current.warm_up)
        yield
        services.close()

    app = FastAPI(
        title="midfea serve",
        version=__version__,
        description="Teach a classifier: everything that the page does.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.services = services
    answer_failures(app)
    for router in ROUTERS:
        app.include_router(router)

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    app.mount("/", PageFiles())
    return app
