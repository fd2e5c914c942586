"""What the routes work with: the workspace, its model, its training, and threads for the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal, ParamSpec, TypeVar

from fastapi import Depends, Request

from midfea.serve.api.current import CurrentModel
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.trainer import Trainer

Work = Literal["read", "write", "answer", "make"]
# A pool for each kind of work, so that none waits for another kind.
N_THREADS: Mapping[Work, int] = {"read": 4, "write": 4, "answer": 2, "make": 1}

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Services:
    """Shared by all routes. Whatever may take time or wait for a lock goes through `run`."""

    workspace: Workspace
    current: CurrentModel
    trainer: Trainer
    pools: Mapping[Work, ThreadPoolExecutor]

    @classmethod
    def start(cls, workspace: Workspace, current: CurrentModel) -> Services:
        """The services of a workspace."""
        pools = {kind: ThreadPoolExecutor(n, f"midfea-{kind}") for kind, n in N_THREADS.items()}

        def load_model() -> None:
            current.get()
            workspace.images.touch()
            with suppress(RuntimeError):  # the server is about to end
                pools["answer"].submit(current.warm_up)

        return cls(workspace, current, Trainer(workspace, load_model), pools)

    async def run(self, kind: Work, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the work in a thread, so that the event loop goes on answering."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pools[kind], lambda: work(*args, **kwargs))

    def close(self) -> None:
        """End the training and the threads."""
        self.trainer.close()
        for pool in self.pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


async def services_of(request: Request) -> Services:
    """The services of the application that a request came to."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
