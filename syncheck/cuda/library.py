"""Reports operators on real GPUs that a library describes."""

from typing import Any

from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.instrument.library import Library, bound_to
from syncheck.instrument.plan import tensors_in
from syncheck.semantics.library import Effect


class DescribedOperators:
    """Runs operators that a library describes, and reports them according to the description."""

    def __init__(self, reporter: Reporter, memory: Memory, library: Library) -> None:
        self._reporter = reporter
        self._memory = memory
        self._library = library

    def special(self, effect: Effect) -> tuple[Any, Any]:
        """Return a predicate on the arguments, and the handler, as in `Copies.specials`."""

        def run(dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with self._reporter.suppressed():
                result = dispatch.call(*args, **kwargs)
            with self._reporter.guard():
                self._memory.begin_results(tensors_in(result))
                self._library.report(effect, bound_to(effect, args, kwargs), result)
            return result

        return lambda args, kwargs: True, run  # noqa: ARG005  for all arguments
