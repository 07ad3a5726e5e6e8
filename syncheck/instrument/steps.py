"""Steps of a training job, and windows between them: from the end of one optimizer step to the end of a later one."""

import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from syncheck.findings import NO_STEPS, counted
from syncheck.instrument.c10d import c10d
from syncheck.instrument.children import install_children
from syncheck.instrument.collectives import hook_init_process_group
from syncheck.instrument.patching import Patches
from syncheck.instrument.shapes import shapes_of
from syncheck.instrument.torch_internals import loader_iterator
from syncheck.ranks.writer import is_beside_ranks
from syncheck.sanitizer.session import Session
from syncheck.source.frames import frame_at
from syncheck.source.lines import is_user_file


class Watchable(Protocol):
    """The part of a backend that concerns windows."""

    def watching(self) -> AbstractContextManager[None]:
        """Check the program for the duration of a block."""
        ...

    def finish(self) -> None:
        """Report what is left, and stop checking."""
        ...


@contextmanager
def job_followed(incomplete: Callable[[str], None]) -> Iterator[None]:
    """Check the ranks that the program starts, and join its job, for the duration of a block and outside windows, too.

    Args:
        incomplete: takes a reason why something is not checked.
    """
    patches = Patches()
    try:
        install_children(patches, incomplete, lambda: None)
        if c10d is not None:
            hook_init_process_group(patches)
        yield
    finally:
        patches.undo()


class Window:
    """Checks between two steps, counting those of the first optimizer that makes one.

    Args:
        steps: number of steps done when checking starts, and when it stops; None means at the end of the program.
        backend: the backend that checks.
        notes: receives a note if the window never began.
    """

    def __init__(self, steps: tuple[int, int | None], backend: Watchable, notes: Session) -> None:
        self._first, self._last = steps
        self._backend = backend
        self._notes = notes
        self._done = 0
        self._counted: weakref.ref[Any] | None = None
        self._watch: AbstractContextManager[None] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the steps in a block, and check those in the window."""
        hook = register_optimizer_step_post_hook(self._stepped)
        if self._first == 0:
            self._begin()
        try:
            yield
        finally:
            hook.remove()
            self._end()
            if self._done < self._first and not (self._done == 0 and is_beside_ranks()):  # the ranks report theirs
                self._notes.incomplete(NO_STEPS)
                self._notes.note(f"--steps begins with step {self._first}, but only {counted(self._done, 'step')} ran")

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if self._counted is None:
            self._counted = weakref.ref(optimizer)
        if self._counted() is not optimizer:
            return
        self._done += 1
        if self._done == self._last:
            self._backend.finish()
            self._end()
        elif self._done == self._first:
            self._begin()

    def _begin(self) -> None:
        self._watch = self._backend.watching()
        self._watch.__enter__()

    def _end(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.__exit__(None, None, None)


class LateReport:
    """Wraps a backend that must run from the first line on; findings outside of the window are dropped.

    Attributes:
        is_open: whether the window has begun, so that findings count.

    Args:
        begin: called when the window begins; earlier findings do not count.
        end: called when the window ends; later findings do not count.
    """

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self.is_open = False
        self._begin = begin
        self._end = end

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count findings from now on."""
        self._begin()
        self.is_open = True
        yield

    def finish(self) -> None:
        """Stop counting findings."""
        self._end()
        self.is_open = False


class Units(Protocol):
    """The consumer of counted units, such as steps; see `syncheck.run.sampler.Sampler`."""

    def ended(self, key: Any = None) -> None:
        """Note the end of a unit in the calling thread."""
        ...

    def pause(self) -> None:
        """Note that work follows which is not a unit, and may take long."""
        ...

    def begin_phase(self) -> None:
        """Note the beginning of a phase whose first units matter most."""
        ...

    def expect_steps(self) -> None:
        """Note that the program has an optimizer, which will make steps."""
        ...

    def input_arrived(self, shapes: Hashable) -> None:
        """Note the shapes of the next unit's input, which has just arrived."""
        ...


class TrainingSteps:
    """Counts training steps of the first optimizer that makes one, and detects epochs from starting data loaders.

    All replaced functions are called at most once per step or epoch: an optimizer's step, the next batch and the start
    of a loader, the creation of an optimizer, the start of processes and of process groups.

    Args:
        units: receives the counted units.
        incomplete: takes a reason why something is not checked.
    """

    def __init__(self, units: Units, incomplete: Callable[[str], None]) -> None:
        self._units = units
        self._incomplete = incomplete
        self._counted: weakref.ref[Any] | None = None
        self._loaders: dict[int, _Loader] = {}  # by identity: a user-defined class may not be hashable
        self._latest: _Loader | None = None
        self._iterator = 0  # identity of the iterator that returned the latest batch
        self._training = 0  # identity of the iterator that returned the batch before the latest step
        self._done = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count for the duration of a block."""
        patches = Patches()
        hook = register_optimizer_step_post_hook(self._stepped)
        try:
            patches.set(DataLoader, "__iter__", self._wrap_iter(DataLoader.__iter__))
            iterator = loader_iterator()
            patches.set(iterator, "__next__", self._wrap_next(iterator.__next__))
            patches.set(Optimizer, "__init__", self._wrap_init(Optimizer.__init__))
            with job_followed(self._incomplete):
                yield
        finally:
            hook.remove()
            patches.undo()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if self._counted is None or self._counted() is None:
            self._counted = weakref.ref(optimizer)
        if self._counted() is not optimizer:
            return
        self._done += 1
        self._training = self._iterator
        if self._latest is not None:
            self._latest.is_training = True
        self._units.ended(_caller())

    def _wrap_init(self, original: Any) -> Any:
        @wraps(original)
        def make(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._units.expect_steps()
            original(optimizer, *args, **kwargs)

        return make

    def _wrap_iter(self, original: Any) -> Any:
        @wraps(original)
        def begin(loader: Any) -> Any:
            known = self._latest = self._known(loader)
            if self._done - known.began > 1:  # otherwise it starts in each step, which is not an epoch
                self._units.pause()
                if known.is_training and torch.is_grad_enabled():  # otherwise it is an evaluation
                    self._units.begin_phase()
            known.began = self._done
            return original(loader)

        return begin

    def _wrap_next(self, original: Any) -> Any:
        @wraps(original)
        def make_batch(iterator: Any) -> Any:
            batch = original(iterator)
            self._iterator = id(iterator)
            if self._iterator == self._training:  # otherwise it may be an evaluation, or the first batch of an epoch
                self._units.input_arrived(shapes_of(batch))
            return batch

        return make_batch

    def _known(self, loader: Any) -> "_Loader":
        key = id(loader)
        if key not in self._loaders:
            self._loaders[key] = _Loader(weakref.ref(loader, lambda _: self._loaders.pop(key, None)))
        return self._loaders[key]


@dataclass(slots=True)
class _Loader:
    """A data loader.

    Attributes:
        life: weak reference to the loader; calls back when it is gone.
        began: number of steps done when it last started.
        is_training: steps were made after it had started, before another loader did.
    """

    life: "weakref.ref[Any]"
    began: int = -2
    is_training: bool = False


def _caller() -> tuple[str, int, int] | None:
    """Return the call site of the step in the program: file, function, offset. Code objects are slow to hash."""
    frame: FrameType | None = frame_at(2)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    return code.co_filename, code.co_firstlineno, frame.f_lasti
