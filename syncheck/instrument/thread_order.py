"""Hooks on what orders threads: starts and joins, events, queues. What has none orders, as code that was not seen does.

Source:
    Python library reference, "threading" and "queue". A join, or a wait, that ran into its timeout orders nothing.
"""

import threading
from collections.abc import Callable
from functools import wraps
from queue import Queue
from typing import Any

from syncheck.instrument.hosts import Hosts
from syncheck.instrument.patching import Patches


def install_thread_order(hosts: Hosts, is_checking: Callable[[], bool], patches: Patches) -> None:
    """Follow events and queues once the program has started a thread."""

    def follow(owner: type, name: str, *, releases: bool, acquires: Callable[[Any, Any], bool]) -> None:
        method = getattr(owner, name)

        @wraps(method)
        def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not (hosts.are_several and is_checking()):
                return method(self, *args, **kwargs)
            sync = hosts.sync_of(self)
            if releases:
                hosts.release(sync)
            result = method(self, *args, **kwargs)
            if acquires(self, result):
                hosts.acquire(sync)
            return result

        patches.set(owner, name, followed)

    follow(threading.Event, "set", releases=True, acquires=_never)
    follow(threading.Event, "wait", releases=False, acquires=_if_true)
    follow(threading.Event, "is_set", releases=False, acquires=_if_true)
    follow(Queue, "put", releases=True, acquires=_if_bounded)
    follow(Queue, "get", releases=True, acquires=_always)


def _never(owner: Any, result: Any) -> bool:
    del owner, result
    return False


def _always(owner: Any, result: Any) -> bool:
    del owner, result
    return True


def _if_true(owner: Any, result: Any) -> bool:
    del owner
    return bool(result)


def _if_bounded(owner: Any, result: Any) -> bool:
    """Return whether a put may have waited for a get."""
    del result
    return bool(owner.maxsize > 0)
