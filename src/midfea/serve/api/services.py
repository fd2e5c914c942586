"""What the routes work with: the workspace, its model, its training, and threads for the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Annotated, Literal, ParamSpec, TypeVar

from fastapi import Depends, Request

from midfea.serve.api.current import CurrentModel
from midfea.serve.api.places import Places
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.trainer import Trainer

Work = Literal["read", "write", "decode", "answer", "open", "make"]
# A pool for each kind of work, so that none waits for another kind.
N_THREADS: Mapping[Work, int] = {
    "read": 4,
    "write": 4,
    "decode": 8,  # some images are slow: half of the threads are for other addresses
    "answer": 2,
    "open": 1,
    "make": 1,
}

P = ParamSpec("P")
T = TypeVar("T")


class Services:
    """Shared by all routes. Whatever may take time or wait for a lock goes through `run`."""

    def __init__(self, workspace: Workspace, current: CurrentModel) -> None:
        self.workspace, self.current = workspace, current
        self.trainer = Trainer(workspace, self._load_model)
        self._decoding = Places(N_THREADS["decode"])
        self.pools = {kind: ThreadPoolExecutor(n, f"midfea-{kind}") for kind, n in N_THREADS.items()}

    def _load_model(self) -> None:
        self.current.get()
        self.workspace.images.touch()
        with suppress(RuntimeError):  # the server is about to end
            self.pools["answer"].submit(self.current.warm_up)

    async def run(self, kind: Work, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the work in a thread, so that the event loop goes on answering."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pools[kind], lambda: work(*args, **kwargs))

    async def decode(self, address: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do work that decodes an image for a client at this address."""
        async with self._decoding.take(address):
            return await self.run("decode", work, *args, **kwargs)

    def close(self) -> None:
        """End the training and the threads."""
        self.trainer.close()
        for pool in self.pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


async def services_of(request: Request) -> Services:
    """The services of the application that a request came to."""
    services: Services = request.app.state.services
    return services


async def address_of(request: Request) -> str:
    """The address that a request came from."""
    return "" if request.client is None else request.client.host


ServicesDep = Annotated[Services, Depends(services_of)]
AddressDep = Annotated[str, Depends(address_of)]
