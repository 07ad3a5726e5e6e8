"""Interpreter of the statements of a program, in the order in which they would run."""

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias
from weakref import ref

from syncheck.hb.clock import VectorClock
from syncheck.lint import deferred
from syncheck.lint.interp import guards, polling, side_work
from syncheck.lint.interp.binding import Binding
from syncheck.lint.interp.calls import Calls
from syncheck.lint.interp.class_definitions import decorated
from syncheck.lint.interp.collectives import Collectives
from syncheck.lint.interp.contexts import Contexts, wait_for_work
from syncheck.lint.interp.control_flow import BreakSignal, ContinueSignal, Jump, Raised, Returned, TooLongError
from syncheck.lint.interp.decisions import Decisions, Flipped, queried
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.expressions import Expressions
from syncheck.lint.interp.functions import defaults_of
from syncheck.lint.interp.imported import FindFunction
from syncheck.lint.interp.iteration import Iteration
from syncheck.lint.interp.loop_waits import Loop
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.matches import as_branches
from syncheck.lint.interp.naming import name_findings
from syncheck.lint.interp.operators import Operators
from syncheck.lint.interp.options import is_left_out
from syncheck.lint.interp.passed_branches import PassedBranches
from syncheck.lint.interp.picks import Picks
from syncheck.lint.interp.scope import Scope, bind_imported
from syncheck.lint.interp.transfers import Transfers
from syncheck.lint.interp.unknown import may_be_read, may_order
from syncheck.lint.interp.values import (
    MOVED,
    NONE,
    UNKNOWN,
    Class,
    Context,
    Function,
    Generator,
    Mapping,
    Query,
    Tensor,
    Value,
    truth,
)

_MAX_KNOWN = 12
"""Maximum number of iterations of a `while` loop whose condition is known."""
_LIKE = {
    "AsyncFunctionDef": "FunctionDef", "TryStar": "Try", "AsyncFor": "For", "AsyncWith": "With", "Nonlocal": "Global",
}  # fmt: skip
"""Statements that are interpreted like another kind."""
_Steps: TypeAlias = Iterator[Value] | None
"""Values that a statement yields; None for a statement that has run and yields nothing."""


class Interpreter:
    """Runs statements, and serves as the `Evaluator` of its components.

    Blocks run as generators, so that generator functions of the program can be interpreted lazily.

    Attributes:
        decisions: the branches taken at undetermined conditions.
        calls: makes calls.
        steps_left: number of statements of the file that may still be interpreted.
        modules: weak references to the module scopes that interpretation started in.

    Args:
        machine: the streams, events and memory.
        flipped: see `Decisions`.
        steps: number of statements that may be interpreted.
        find_imported: finds functions of other files.
        expressions_of: makes the component that evaluates expressions.
    """

    def __init__(
        self,
        machine: Machine,
        flipped: Flipped,
        steps: int,
        find_imported: FindFunction = lambda *_: None,
        expressions_of: Callable[[Evaluator], Expressions] = Expressions,
    ) -> None:
        self.machine, self.operators = machine, Operators(machine)
        self.transfers = Transfers(machine, self.operators)
        self.collectives = Collectives(machine)
        self.decisions, self.steps_left = Decisions(flipped), steps
        self.picks, self.modules = Picks(self.decisions), list[ref[Scope]]()
        self.decide, self.forget_decisions = self.decisions.decide, self.decisions.forget
        self.decide_by_default, self.enter = self.decisions.by_default, self.decisions.enter
        self.note_object, self.is_object = self.decisions.note_object, self.decisions.is_object
        expressions, binding = expressions_of(self), Binding(self)
        self.evaluate, self.attribute = expressions.evaluate, expressions.attribute
        self._augmented = expressions.augmented
        self.assign, self._delete = binding.assign, binding.delete
        self.calls = calls = Calls(self, find_imported)
        self.call, self.call_function, self.call_method = calls.call, calls.call_function, calls.call_method
        self.call_unknown, self.call_in_new_thread = calls.call_unknown, calls.call_in_new_thread
        self.decorate, self.escape = calls.decorate, calls.escape
        iteration = Iteration(self)
        self.items, self.iterations, self.listed = iteration.items, iteration.iterations, iteration.listed
        self.context, self._passed = Contexts(self).context, PassedBranches(machine)

    def forget(self) -> None:
        """Drop all state once it is no longer needed: reference cycles would keep it alive."""
        self.calls.forget()
        for module in self.modules:
            scope = module()
            if scope is not None:
                scope.names.clear()
        self.__dict__.clear()

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Run statements that yield nothing."""
        for _ in self.block(body, scope):
            pass

    def block(self, body: list[ast.stmt], scope: Scope) -> Iterator[Value]:
        """See `Evaluator`."""
        machine = self.machine
        for statement in body:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise TooLongError
            machine.current_node = statement
            n_findings = len(machine.findings)
            method = _METHODS.get(statement.__class__)
            steps = method(self, statement, scope) if method is not None else None
            if steps is not None:
                yield from steps
            if len(machine.findings) > n_findings and machine.imported.running is None:
                name_findings(machine, machine.findings[n_findings:], scope, statement)

    # -- simple statements

    def _run_Expr(self, node: ast.Expr, scope: Scope) -> _Steps:
        if isinstance(node.value, ast.Yield | ast.YieldFrom):
            return self._yielded(node.value, [], scope)
        self.evaluate(node.value, scope)
        return None

    def _run_Assign(self, node: ast.Assign, scope: Scope) -> _Steps:
        if isinstance(node.value, ast.Yield):
            return self._yielded(node.value, node.targets, scope)
        value = self.evaluate(node.value, scope)
        if value is MOVED and self.machine.sites.enters_streams:
            value = side_work.used_in_block(self.machine, node.value) or value
        self._assign_all(node.targets, value, scope)
        return None

    def _assign_all(self, targets: list[ast.expr], value: Value, scope: Scope) -> None:
        for target in targets:
            self.assign(target, value, scope)

    def _yielded(self, node: ast.Yield | ast.YieldFrom, targets: list[ast.expr], scope: Scope) -> Iterator[Value]:
        """Yield the value of a `yield` expression. The value sent back is unknown."""
        if isinstance(node, ast.YieldFrom):
            yield from self.items(self.evaluate(node.value, scope))
        else:
            yield self.evaluate(node.value, scope)
        self._assign_all(targets, UNKNOWN, scope)

    def _run_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, scope), scope)

    def _run_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        before = self.evaluate(node.target, scope)
        after = self.evaluate(node.value, scope)
        self.assign(node.target, self._augmented(node, before, after), scope, is_same=isinstance(before, Tensor))

    def _run_Return(self, node: ast.Return, scope: Scope) -> None:
        raise Returned(self.evaluate(node.value, scope) if node.value is not None else NONE)

    def _run_Raise(self, node: ast.Raise, scope: Scope) -> None:
        raise Raised

    def _run_Break(self, node: ast.Break, scope: Scope) -> None:
        raise BreakSignal

    def _run_Continue(self, node: ast.Continue, scope: Scope) -> None:
        raise ContinueSignal

    def _run_Assert(self, node: ast.Assert, scope: Scope) -> None:
        if self.condition(node.test, scope) is None and self.decisions.excludes(node.test):
            raise Raised

    def _run_Delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._delete(target, scope)

    def _run_Global(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        for name in node.names:
            scope.share(name, is_global=isinstance(node, ast.Global))

    def _run_Import(self, node: ast.Import, scope: Scope) -> None:
        bind_imported(node, scope)

    def _run_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        bind_imported(node, scope)

    # -- definitions

    def _run_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        function: Value = Function(node, scope, defaults_of(node, lambda default: self.evaluate(default, scope)))
        for decorator in reversed(node.decorator_list):
            function = self.decorate(function, decorator, scope)
        scope.set(node.name, function)

    def _run_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        made = Class(node, scope, [self.calls.base(self.evaluate(base, scope), node) for base in node.bases])
        inside = Scope(scope)
        self.run(node.body, inside)
        made.members = inside.names
        for member in made.members.values():
            if isinstance(member, Function) and member.scope is inside:
                member.scope = scope  # methods do not see the names in the class body
        scope.set(node.name, decorated(self, made, scope))

    # -- branches

    def _run_If(self, node: ast.If, scope: Scope) -> _Steps:
        completing = self._completing(node.test, scope)
        known = self.condition(node.test, scope) if completing is None else None
        known = known and not guards.refuses(node)
        is_taken = self._is_taken(node, scope) if known is None else known
        if is_taken is completing:
            self.machine.assume_synchronized()
        taken, skipped = (node.body, node.orelse) if is_taken else (node.orelse, node.body)
        if known is not None:
            return self.block(taken, scope) if taken else None
        session = self.machine.session
        before = session.clocks() if taken and skipped else []
        self._skip_branch(skipped, scope, node)
        self.machine.recent.take(node.test, skipped, value=is_taken)
        return self._in_place_of(session.rewind(before), taken, scope) if taken else None

    def _in_place_of(self, other: list[VectorClock], body: list[ast.stmt], scope: Scope) -> Iterator[Value]:
        """Interpret a branch. What the other branch waits for, given by clocks, is complete only after this one."""
        try:
            yield from self.machine.recent.loops.conditionally(self.block(body, scope))
        finally:
            self.machine.session.advance(other)

    def _completing(self, test: ast.expr, scope: Scope) -> bool | None:
        """Return the outcome of a completion query that shows that work is complete; None for other conditions."""
        asked, outcome = queried(test)
        return outcome if asked is not None and isinstance(self.evaluate(asked, scope), Query) else None

    def _is_taken(self, node: ast.If, scope: Scope) -> bool:
        """Return whether an undetermined branch is taken. By default, buffers that exist are large enough."""
        target = guards.grown(node)
        is_enough = target is not None and isinstance(self.evaluate(target, scope), Tensor)
        is_moved = self.machine.imported.running is not None and guards.moves_tensor(node)  # only one path there
        default = (guards.by_default(node) or is_moved) and not is_enough
        turn = guards.turn_of_other(node, has_work=self.machine.n_relevant > 0)
        return self.decide(node.test, by_default=default, turn=turn)

    def _skip_branch(self, body: list[ast.stmt], scope: Scope, node: ast.If) -> None:
        """Take a skipped branch into account, which may have run on another path."""
        premises = self.machine.sites.premises
        in_callee = len(self.machine.calls) > 1
        is_skipped = guards.is_periodic(node) or guards.is_over(body, in_callee=in_callee)
        is_skipped |= body is node.body and not in_callee and is_left_out(node, self.machine.sites.tree)
        if not is_skipped and not (body and may_order(body) and premises.skip(node, value=body is node.orelse)):
            self.run_for_ordering(body, scope)
            return
        if self.collectives.have_started:
            self.collectives.escape_all(scope.names.get(name) for name in guards.used_in(body))

    def run_for_ordering(self, body: list[ast.stmt], scope: Scope) -> None:
        """Interpret a skipped branch only for what it orders, since it may have run."""
        if not body or self._passed.is_idle(body, scope):
            return
        machine = self.machine
        inside = Scope(scope.parent)
        inside.names, inside.shared = dict(scope.names), {}
        thread = machine.thread
        before = (dict(thread.streams), list(thread.contexts), thread.device)
        machine.ordering_only += 1
        try:
            with machine.recent.loops.conditional(), suppress(Jump):
                self.run(body, inside)
        finally:
            machine.ordering_only -= 1
            thread.streams, thread.contexts, thread.device = before

    def _run_Match(self, node: ast.Match, scope: Scope) -> Iterator[Value]:
        self.observe_truth_test(self.evaluate(node.subject, scope))
        yield from self.block(as_branches(node), scope)

    def _run_Try(self, node: ast.Try, scope: Scope) -> Iterator[Value]:
        try:
            yield from self.block(node.body, scope)
            yield from self.block(node.orelse, scope)
        except Raised:
            if not node.handlers:
                raise
            yield from self.block(node.handlers[0].body, scope)
        else:
            for handler in node.handlers:
                self.run_for_ordering(handler.body, scope)
        finally:
            if self.steps_left > 0:
                self.run(node.finalbody, scope)

    # -- loops

    def _run_For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> Iterator[Value]:
        source = self.evaluate(node.iter, scope)
        is_cut = getattr(source, "is_open", True) and not isinstance(source, Generator | Mapping | Tensor)
        loop = self.machine.recent.loops.begin()
        try:
            for item in self.iterations(source):
                self.machine.current_node = node.target  # not the last statement of the iteration before
                self.assign(node.target, item, scope)
                del item
                yield from self._iteration(node, loop, scope)
            if self.collectives.have_started and guards.may_end_otherwise(node, is_cut=is_cut):
                self.collectives.escape_all(scope.names.values())
            yield from self.block(node.orelse, scope)
        except BreakSignal:
            pass

    def _run_While(self, node: ast.While, scope: Scope) -> Iterator[Value]:
        done, loop = 0, self.machine.recent.loops.begin()
        known: bool | None = None
        if (polled := polling.polled(node)) and wait_for_work(self.machine, self.evaluate(polled, scope), node):
            return
        try:
            while done < _MAX_KNOWN:
                known = self.condition(node.test, scope)
                is_open = known is None or isinstance(node.test, ast.Constant)
                if known is False or (is_open and done >= self.machine.sites.n_iterations(self.machine.function)):
                    break
                done += 1
                yield from self._iteration(node, loop, scope)
            if known is not False and polling.may_poll(node):
                self.machine.assume_synchronized()
            yield from self.block(node.orelse, scope)
        except BreakSignal:
            pass

    def _iteration(self, node: ast.For | ast.AsyncFor | ast.While, loop: Loop, scope: Scope) -> Iterator[Value]:
        machine = self.machine
        with suppress(ContinueSignal), machine.loops.iterating(node), machine.recent.loops.iterating(loop):
            yield from self.block(node.body, scope)

    # -- contexts

    def _run_With(self, node: ast.With | ast.AsyncWith, scope: Scope) -> Iterator[Value]:
        entered: list[Context] = []
        try:
            for item in node.items:
                self.machine.current_node = item.context_expr
                context = self.context(self.evaluate(item.context_expr, scope), item.context_expr)
                value = context.enter()
                entered.append(context)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value, scope)
            yield from self.block(node.body, scope)
        finally:
            self.machine.current_node = node
            for context in reversed(entered):
                context.leave()

    # -- conditions

    def condition(self, test: ast.expr, scope: Scope) -> bool | None:
        """See `Evaluator`; testing a tensor makes the host wait."""
        value = guards.as_tested(self, self.evaluate(test, scope), test)
        if isinstance(value, Tensor):
            self.operators.tested_by_host(value, test)
        self.observe_truth_test(value)
        if self.machine.recent.losses and guards.reads_any(test, self.machine.recent.losses):
            self.machine.read_unknown()
        known = truth(value)
        return on_gpu(test) if known is None else known

    def observe_truth_test(self, value: Value) -> None:
        """See `Evaluator`. After a completion query has been tested, all work is assumed to be complete."""
        if isinstance(value, Query):
            if value.event is not None:
                value.event.escaped = True
            self.machine.assume_synchronized()
        elif may_be_read(value):
            self.machine.read_unknown()


_METHODS: dict[type, Callable[[Interpreter, Any, Scope], _Steps]] = {
    kind: getattr(Interpreter, name)
    for kind in (*ast.stmt.__subclasses__(), *deferred.KINDS.values())
    if hasattr(Interpreter, name := f"_run_{_LIKE.get(kind.__name__, kind.__name__)}")
}
"""Kind of statement -> the method that runs it."""
