"""Skipped branches: one that ordered nothing is not run again as long as nothing has happened since."""

import ast

from syncheck.lint.interp.guards import used_in
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import Attribute, Constant, Mapping, Sequence, Symbol, Value

_DEEPEST = 3


class PassedBranches:
    """The branches that were run for ordering, each with the state at that time.

    Args:
        machine: shows whether anything has happened.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._used: dict[int, frozenset[str]] = {}  # id of a branch, which its function keeps alive -> its names
        self._found: dict[int, tuple[int, int, list[object]]] = {}  # id of a branch -> its state, see `is_idle`

    def is_idle(self, body: list[ast.stmt], scope: Scope) -> bool:
        """Return whether running a branch again would have no effect; if not, the caller runs it next.

        This holds if no call site has been requested since the last check, neither by the branch nor by other code, and
        the values of its names are unchanged.
        """
        branch, sites = id(body), self._machine.sites
        if branch not in self._used:
            self._used[branch] = frozenset(used_in(body))
        values: list[object] = [_identity(scope.names.get(name)) for name in self._used[branch]]
        found = (sites.n_asked, self._machine.n_relevant, values)
        is_idle = self._found.get(branch) == found
        self._found[branch] = found
        return is_idle


def _identity(value: Value | None, depth: int = _DEEPEST) -> object:
    """Return an object that compares equal for values with which a branch has the same effect."""
    match value:
        case Constant(value=constant):
            return constant
        case Symbol(path=path):
            return (path,)
        case Attribute(owner=owner, name=name) if depth:
            return (_identity(owner, depth - 1), name)
        case Sequence(items=items) if depth:
            return [_identity(item, depth - 1) for item in items]
        case Mapping(items=items) if depth:
            return {key: _identity(item, depth - 1) for key, item in items.items()}
        case _:
            return () if is_unknown(value) else id(value)
