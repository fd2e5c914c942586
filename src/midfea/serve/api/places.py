"""Places for work that only a few may do at once, of which no client gets more than half."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Places:
    """Places for the requests of all addresses; one address may hold half of them."""

    def __init__(self, n_places: int) -> None:
        self._all, self._n_each = asyncio.Semaphore(n_places), max(1, n_places // 2)
        self._of_address = WeakValueDictionary[str, asyncio.Semaphore]()  # of those who use one

    @asynccontextmanager
    async def take(self, address: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it within this context."""
        own = self._of_address.setdefault(address, asyncio.Semaphore(self._n_each))
        async with own, self._all:
            yield
