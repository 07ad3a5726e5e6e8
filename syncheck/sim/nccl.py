"""Support for the "nccl" backend on virtual GPUs: patches for torch.distributed."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch

from syncheck.instrument.c10d import ProcessGroup, Reducer, Work, c10d
from syncheck.instrument.collectives import hook_group_methods, join_job
from syncheck.instrument.patching import Patches
from syncheck.ranks import watchdog
from syncheck.semantics.collectives import makes_host_wait
from syncheck.sim.device_kind import simulated
from syncheck.sim.distributed import Distributed
from syncheck.sim.nccl_options import install_options


def install_distributed(distributed: Distributed, patches: Patches) -> None:
    """Make "nccl" available as a backend."""
    if not torch.distributed.is_available():
        return
    hook_group_methods(patches)
    patches.set(ProcessGroup, "_start_coalescing", lambda *_: distributed.start_coalescing())
    patches.set(ProcessGroup, "_end_coalescing", lambda *_: distributed.end_coalescing())
    _install_waits(distributed, Work, patches)
    _install_reducer(distributed, patches)
    _install_groups(distributed, c10d, patches)
    install_options(patches)
    _install_other_waits(distributed, patches)


def _install_other_waits(distributed: Distributed, patches: Patches) -> None:
    """Patch the calls other than collectives that wait for other ranks or leave the group."""
    store = c10d.Store
    for name in ("wait", "get"):
        patches.set(store, name, _with_collectives_begun(distributed, getattr(store, name), f"a store's `{name}`"))
    original = c10d.destroy_process_group

    @wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> None:
        distributed.leave()
        original(*args, **kwargs)

    patches.everywhere({original: destroy_process_group})


def _with_collectives_begun(distributed: Distributed, original: Any, what: str) -> Any:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        distributed.begin_pending(what)
        return original(*args, **kwargs)

    return call


def _install_waits(distributed: Distributed, work_class: Any, patches: Patches) -> None:
    def waiting(original: Any) -> Any:
        @wraps(original)
        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            distributed.before_wait(self)
            # hide gloo's own copies
            with distributed.unobserved(), watchdog.waiting("the wait for a collective", distributed.group_of(self)):
                # when repeated, gloo waits for another message, but NCCL for the same event: `WorkNCCL::wait` in
                # ProcessGroupNCCL.cpp
                is_again = original is original_wait and distributed.is_awaited(self)
                result = is_again or original(self, *args, **kwargs)
            for work in distributed.coalesced_siblings(self):
                wait(work)
            distributed.handle_wait(self, is_blocking=makes_host_wait(args, kwargs))
            return result

        return wait

    original_wait = work_class.wait
    # gloo's handles have no usable `synchronize`: make it wait, as NCCL's does
    wait = waiting(original_wait)
    for name in ("wait", "result"):
        patches.set(work_class, name, waiting(getattr(work_class, name)))
    original_future = work_class.get_future

    @wraps(original_future)
    def get_future(self: Any) -> Any:
        with distributed.unobserved():
            future = original_future(self)
        distributed.future(self, future)
        return future

    patches.set(work_class, "get_future", get_future)
    distributed.futures.install(patches)
    for name in ("synchronize", "block_current_stream"):
        patches.set(work_class, name, lambda self, *_, **__: wait(self) and None)

    def is_completed(self: Any) -> bool:  # a plain function, so that it binds to the handle
        return distributed.is_completed(self)

    patches.set(work_class, "is_completed", is_completed)


def _install_reducer(distributed: Distributed, patches: Patches) -> None:
    """Patch the futures of DDP's reducer: that of its all-reduce, which a hook may wait for, and the hook's own."""
    original = Reducer._run_allreduce_hook  # called by torch's own hooks; there is no public name

    @wraps(original)
    def run(self: Any, bucket: Any) -> Any:
        future = original(self, bucket)
        distributed.note_reducer_future(future)
        return future

    patches.set(Reducer, "_run_allreduce_hook", run)
    original_registration = vars(torch.distributed)["_register_comm_hook"]  # called by DDP; there is no public name

    @wraps(original_registration)
    def register(reducer: Any, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        @wraps(hook)
        def observed(state: Any, bucket: Any) -> Any:
            future = hook(state, bucket)
            distributed.futures.give_to_reducer(future)
            return future

        original_registration(reducer, state, observed)

    patches.everywhere({original_registration: register})
    original_hook = Reducer._run_comm_hook  # called by `Join` instead of a backward pass

    @wraps(original_hook)
    def run_hook(self: Any, bucket: Any) -> Any:
        return distributed.futures.run_comm_hook(partial(original_hook, self, bucket))

    patches.set(Reducer, "_run_comm_hook", run_hook)


def _install_groups(distributed: Distributed, c10d: Any, patches: Patches) -> None:
    """Create gloo groups where NCCL groups are requested, and record which these are."""
    original_init, original_new, original_backend = c10d.init_process_group, c10d.new_group, c10d.get_backend

    @wraps(original_init)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        with watchdog.waiting("init_process_group"):
            make(backend, args, kwargs)
        join_job()

    def make(backend: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _is_nccl(backend):
            original_init("gloo", *args, **_for_gloo(kwargs))
            distributed.groups.add(c10d.GroupMember.WORLD, backend, is_bound=kwargs.get("device_id") is not None)
        else:
            original_init(backend, *args, **kwargs)

    @wraps(original_new)
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        distributed.begin_pending("new_group")
        wanted = get_backend() if backend is None else backend
        if not _is_nccl(wanted):
            return original_new(ranks, timeout, backend, *args, **kwargs)
        group = original_new(ranks, timeout, "gloo", **_for_gloo(kwargs))
        if isinstance(group, c10d.ProcessGroup):
            distributed.groups.add(group, wanted, is_bound=kwargs.get("device_id") is not None)
        return group

    @wraps(original_backend)
    def get_backend(group: Any = None) -> Any:
        found = group if group is not None else c10d.GroupMember.WORLD
        backend = distributed.groups.backend_of(found)
        return c10d.Backend(backend) if backend else original_backend(group)

    original_device = c10d._get_object_coll_device  # there is no public name
    replacements = {original_init: init_process_group, original_new: new_group, original_backend: get_backend}
    replacements |= {original_device: _object_device(distributed, original_device)}
    patches.everywhere(replacements | {c10d.is_nccl_available: lambda: True})


def _object_device(distributed: Distributed, original: Callable[[Any], Any]) -> Callable[[Any], str]:
    """Return a function that returns the device for the tensors of object collectives. NCCL uses the GPU."""

    def object_device(group: Any = None) -> str:
        backend = distributed.groups.backend_of(group if group is not None else c10d.GroupMember.WORLD)
        return simulated().name if backend == simulated().communication else str(original(group))

    return object_device


def _is_nccl(backend: Any) -> bool:
    """Return whether a backend is NCCL, alone or for one device type. NCCL is the default if there are GPUs."""
    return backend is None or simulated().communication in str(backend).lower()


def _for_gloo(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return arguments without those that only NCCL accepts."""
    return {name: value for name, value in kwargs.items() if name not in {"device_id", "pg_options"}}
