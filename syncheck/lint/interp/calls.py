"""Calls: functions of the program are interpreted, those with a model are modeled, the rest is unknown code."""

import ast
from collections import abc
from weakref import WeakSet

from syncheck.lint import nodes
from syncheck.lint.interp import registry, side_work
from syncheck.lint.interp.contents import handles_in, held_by, owner_of_method, tensors_in
from syncheck.lint.interp.contexts import within
from syncheck.lint.interp.control_flow import Returned
from syncheck.lint.interp.dataclass_fields import is_dataclass, set_fields
from syncheck.lint.interp.decorators import changes_nothing, marks, returns_its_argument
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.functions import HOOKS, bind, is_generator, without_self
from syncheck.lint.interp.identities import Objects, is_unknown
from syncheck.lint.interp.imported import FindFunction, ImportedFunctions
from syncheck.lint.interp.passed_functions import PassedFunctions
from syncheck.lint.interp.scope import Scope, super_of
from syncheck.lint.interp.unknown import (
    called_name,
    computes,
    is_moved,
    is_network,
    is_on_gpu,
    launches_kernel,
    makes_batch,
    makes_network,
    may_wait,
    runs_network,
    says_moved,
    takes_code,
    takes_flag,
)
from syncheck.lint.interp.values import (
    DERIVED,
    MOVED,
    NONE,
    UNKNOWN,
    Attribute,
    Call,
    Class,
    Constant,
    Context,
    Event,
    Function,
    Generator,
    Instance,
    Module,
    Native,
    Partial,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Value,
    Work,
)
from syncheck.semantics.threads import ThreadState

_HOLDING_NOTHING = frozenset({Value, Attribute, Class, Constant, Function, Symbol})
"""Kinds of values without contents that unknown code could change."""
_DEEPEST = 12


class _ExhaustedError(Exception):
    """A generator is exhausted."""


class Calls:
    """Makes calls.

    Attributes:
        followed: functions of the program that were interpreted.
        passed_functions, imported: functions that are handed to other code; functions of other files.

    Args:
        evaluator: interprets the program.
        find_imported: finds functions of other files.
    """

    def __init__(self, evaluator: Evaluator, find_imported: FindFunction) -> None:
        self._evaluator, self._machine = evaluator, evaluator.machine
        self.imported = ImportedFunctions(evaluator, find_imported)
        self._objects, self._depth = Objects(), 0
        self._running: list[ast.AST] = []
        self._generators: WeakSet[abc.Generator[Value, None, None]] = WeakSet()
        self.followed: set[ast.AST] = set()
        self.passed_functions = PassedFunctions(evaluator, self.followed)

    def forget(self) -> None:
        """Close the generators that the program has abandoned, and drop the scopes of other files."""
        for generator in list(self._generators):
            generator.close()
        self.imported.forget()

    def call(self, function: Value, call: Call, scope: Scope | None = None) -> Value:
        """See `Evaluator`."""
        by_kind = _BY_KIND.get(function.__class__)
        if by_kind is not None:
            result: Value = getattr(self, by_kind)(function, call)
            return result
        if isinstance(function, Symbol):
            return self._call_name(function.path, call, scope)
        if isinstance(function, Tensor) and called_name(call.node) == "values":  # of a dictionary, or a sparse tensor
            return Sequence([function])
        may_move = function is MOVED or (isinstance(function, Tensor) and function.block.device is not None)
        is_layer = may_move or isinstance(function, Tensor) or function in self._objects
        return self._call_network(call, may_move=may_move) if is_layer else self.call_unknown("", call)

    def _call_network(self, call: Call, *, may_move: bool = True) -> Value:
        """Call something unknown that is a network if it gets something on a GPU; `may_move`: or if it has its name."""
        found = self.call_unknown("", call)
        is_network = may_move and (any(map(is_moved, call.values())) or runs_network(call.node))
        if found is not DERIVED and not is_network:
            return found
        made = side_work.compute(self._machine, call.node, is_long=True)
        return found if found is DERIVED else made

    def _call_native(self, function: Native, call: Call) -> Value:
        return self.call_unknown("", call) if (made := function.function(call)) is None else made

    def _call_attribute(self, function: Attribute, call: Call) -> Value:
        return self.call_method(function.owner, function.name, call)

    def _call_partial(self, function: Partial, call: Call) -> Value:
        args, kwargs = [*function.args, *call.args], {**function.kwargs, **call.kwargs}
        return self.call(function.function, Call(call.node, args, kwargs, call.is_complete))

    def _call_name(self, path: str, call: Call, scope: Scope | None) -> Value:
        if path == "builtins.super" and scope is not None:
            return super_of(scope)
        found = self._call_known(path, call)
        return self.call_unknown(path, call) if found is None else found

    def _call_known(self, path: str, call: Call) -> Value | None:
        """Call a function by its full name; return None if nothing is known about it."""
        found = registry.call_by_name(self._evaluator, path, call)
        name = path.rpartition(".")[2]
        found = self.imported.call(path, call) if found is None else found
        if is_unknown(found or UNKNOWN) and says_moved(name) and not self.imported.orders(path, call):
            found = self._evaluator.transfers.by_name(name, call) or found
        return side_work.as_moved(found, self._machine, call.node)

    def base(self, value: Value, node: ast.ClassDef) -> Value:
        """Return a base of a class in this file; one from another file is resolved to its class."""
        return (self.imported.kind(value.path, node) if isinstance(value, Symbol) else None) or value

    def call_method(self, owner: Value, name: str, call: Call) -> Value:
        """See `Evaluator`."""
        found = registry.call_method(self._evaluator, owner, name, call)
        for known in (self._evaluator.collectives.by_keyword, self._evaluator.transfers.by_name):
            found = known(name, call) if found is None else found
        return self.call_unknown(name, call) if found is None else found

    def call_unknown(self, name: str, call: Call) -> Value:
        """See `Evaluator`. A call that gets a stream, an event or a GPU tensor is assumed to wait for all work.

        If it gets a tensor, it may also leave work running and return another tensor.
        """
        given = [owner_of_method(value) for value in call.values() if not is_unknown(value)]
        self.passed_functions.interpret(given)
        has_tensor = any(map(is_on_gpu, given))
        side_work.note_arguments(self._machine, call, given)
        self.imported.objects.call_method(call)
        if has_tensor and launches_kernel(call.node):
            side_work.use(self._machine, given, call.node)
            return UNKNOWN
        if has_tensor and self._machine.is_capturing():
            return side_work.capture(self._machine, given, call.node)
        self._evaluator.transfers.given.give(given, call.node)
        if (has_tensor or not name) and side_work.is_only_used(self._machine, name, given, call.node):
            if side_work.is_on_side_stream(self._machine):
                return side_work.result(self._machine, call.node)
        else:
            self._let_wait(name, given, call.node, has_tensor=has_tensor)
        if not has_tensor and side_work.calls_parameter(self._machine, call.node):
            return side_work.compute(self._machine, call.node, is_long=True)
        if not (has_tensor or side_work.may_run_on_gpu(self._machine, call.node, given)):
            made = self._objects.new() if makes_network(call.node) else UNKNOWN
            return side_work.as_moved(made, self._machine, call.node)
        self._machine.guess(call.node)
        return DERIVED if has_tensor else MOVED

    def _let_wait(self, name: str, given: list[Value], node: ast.AST, *, has_tensor: bool) -> None:
        """Let unknown code use and keep its arguments. It may wait for all work, unless it is a network."""
        runs_code = takes_code(given, node)
        may_order = runs_code or takes_flag(node) or any(isinstance(value, Stream | Event) for value in given)
        if has_tensor and computes(node) and not may_order:
            side_work.use(self._machine, given, node)
        for value in given:
            self.escape(value)  # nothing for a value that holds nothing
        can_wait = runs_code or may_wait(name or called_name(node))
        is_unknown_code = not name and (given or not side_work.calls_parameter(self._machine, node))
        if can_wait or ((has_tensor or is_unknown_code) and not (is_network(node) or makes_batch(node))):
            self._evaluator.collectives.assume_synchronized(name, can_wait=can_wait)

    def escape(self, value: Value, depth: int = 4) -> None:
        """See `Evaluator`."""
        machine = self._machine
        if isinstance(value, Stream | Event):
            machine.assume_synchronized()
        if not depth or machine.ordering_only or value.__class__ in _HOLDING_NOTHING:
            return
        match value:
            case Event():
                value.escaped = True
            case Tensor():
                self._escape_tensor(value)
            case Instance(attributes=attributes):
                self._escape_attributes(attributes, depth - 1)
            case Work():
                self._evaluator.collectives.escape(value)
            case _:
                for item in held_by(value):
                    self.escape(item, depth - 1)

    def _escape_tensor(self, tensor: Tensor) -> None:
        if tensor.array is not None and not self._evaluator.transfers.may_be_awaited(tensor):
            self._machine.touch_host("Tensor.numpy()", [(tensor, False)], tensor.array, escape=True)
        tensor.block.escaped = True

    def _escape_attributes(self, attributes: dict[str, Value], depth: int) -> None:
        """Mark the attributes of an escaping object. Code that reads an array in it may wait first."""
        for item in attributes.values():
            if isinstance(item, Tensor):
                item.block.escaped = True
            elif item.__class__ not in _HOLDING_NOTHING:
                self.escape(item, depth)

    def call_function(self, function: Function, call: Call) -> Value:
        """See `Evaluator`. A call that is nested too deeply is treated as unknown code."""
        node = function.node
        name = getattr(node, "name", "")
        if function.scope.module.is_imported and self._machine.imported.running is None:
            found = self.imported.call_function(function, call)
            return self.call_unknown(name, call) if found is None else found
        self.followed.update(() if self._machine.ordering_only else (node,))
        if self._running.count(node) > 1:
            return self._repeat(call)
        if self._depth >= _DEEPEST or nodes.is_abstract(node):
            is_abstract = nodes.is_abstract(node)
            return self.call_method(UNKNOWN, name, without_self(call)) if is_abstract else self.call_unknown(name, call)
        scope = Scope(function.scope)
        scope.names = bind(function, call)
        self._evaluator.enter(scope.names)
        if isinstance(node, ast.Lambda):
            return self._evaluator.evaluate(node.body, scope)
        call.args.clear()
        if is_generator(node):
            generator = self._generate(node, scope)
            self._generators.add(generator)
            return Generator(generator)
        return self._follow(node, scope)

    def _repeat(self, call: Call) -> Value:
        """Return the result of a recursive call, which does to its arguments what the running calls do to theirs."""
        self.escape(Sequence(call.values()))
        return DERIVED if any(map(is_on_gpu, call.values())) else UNKNOWN

    def _follow(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Value:
        machine = self._machine
        caller, function = machine.current_node, machine.function
        self._depth += 1
        self._running.append(node)
        self._evaluator.transfers.enter(node)
        machine.calls.append((caller, function))
        machine.function = node.name
        try:
            self._evaluator.run(node.body, scope)
            self.passed_functions.interpret_remaining(scope, self._depth)
        except Returned as returned:
            self.passed_functions.interpret_remaining(scope, self._depth)
            if isinstance(returned.value, Function):
                return self._closed(returned.value, scope)
            scope.is_kept = scope.is_kept or isinstance(returned.value, Generator)  # it may use the variables later
            return machine.graph_results.taken(returned.value, machine.site)
        finally:
            if not scope.is_kept:
                scope.names.clear()
            self._depth -= 1
            self._running.pop()
            machine.calls.pop()
            machine.current_node, machine.function = caller, function
        return NONE

    def _closed(self, function: Function, scope: Scope) -> Function:
        """Keep the variables of the enclosing function that a returned function uses."""
        if self._evaluator.collectives.have_started:
            for work in handles_in(function):
                self._evaluator.collectives.escape(work)
        if function.scope is scope:
            scope.is_kept = True
            for name in scope.names.keys() - nodes.names(function.node):
                del scope.names[name]
        return function

    def _generate(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> abc.Generator[Value, None, None]:
        steps = self._evaluator.block(node.body, scope)
        try:
            while True:
                yield self._next_of(steps, node)
        except (Returned, _ExhaustedError):
            return
        finally:
            scope.names.clear()

    def _next_of(self, steps: abc.Iterator[Value], node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        """Return the next value of a generator. It is not bound to a name, which would keep it alive."""
        machine = self._machine
        before, machine.function = machine.function, node.name
        self._running.append(node)
        try:
            return next(steps)
        except StopIteration:
            raise _ExhaustedError from None
        finally:
            self._running.pop()
            machine.function = before

    def _construct(self, kind: Class, call: Call) -> Value:
        """Create an instance of a class of the program."""
        instance = Instance(kind)
        begin = kind.find("__init__")
        if isinstance(begin, Function):
            self.call_function(begin, Call(call.node, [instance, *call.args], call.kwargs, call.is_complete))
        elif is_dataclass(kind):
            set_fields(self._evaluator, instance, call)
        elif not kind.is_known or kind.find("__new__") is not None:
            for value in call.values():
                self.escape(value)
        return instance

    def _call_instance(self, instance: Instance, call: Call) -> Value:
        name = "__call__" if instance.kind.find("__call__") else "forward" if instance.kind.is_net else "__call__"
        member = None if HOOKS in instance.attributes else instance.kind.find(name)
        if isinstance(member, Function):
            given, is_moving = [instance, *call.args], instance.kind.is_net and any(map(is_moved, call.values()))
            found = self.call_function(member, Call(call.node, given, call.kwargs, call.is_complete))
            is_lost = is_moving and found.__class__ is Value  # what it computes is unknown
            return side_work.compute(self._machine, call.node, is_long=True) if is_lost else found
        return self.call_unknown("", call)

    def _call_layer(self, layer: Module, call: Call) -> Value:
        inputs = tensors_in(Sequence(call.values()))
        if layer.weight is None or self._machine.hooks_may_wait:
            return side_work.run_layer(self._machine, layer, call, may_wait=True)
        if inputs:
            return self._evaluator.operators.run("aten::addmm", [*inputs, layer.weight], call)
        return self._call_network(call) if side_work.is_open(layer) else side_work.run_layer(self._machine, layer, call)

    def decorate(self, function: Value, decorator: ast.expr, scope: Scope) -> Value:
        """See `Evaluator`. Decorators without an effect on order are skipped; those of the program are called."""
        name = nodes.text(decorator)
        if (isinstance(function, Function) and marks(name, function)) or changes_nothing(name):
            return function
        found = self._evaluator.evaluate(decorator, scope)
        if isinstance(found, Symbol) and found.path.endswith("contextmanager"):
            return function  # its generator is the context
        if isinstance(found, Context):
            return Native(lambda call: within(found, lambda: self.call(function, call)))
        call = Call(decorator, [function])
        if found.__class__ is Value or isinstance(found, Symbol):
            return self._decorated_by(found, call)
        return self.call(found, call, scope)

    def _decorated_by(self, found: Value, call: Call) -> Value:
        """Decorate a function with a function of another file. Unknown code waits for nothing meanwhile."""
        known = self._call_known(found.path, call) if isinstance(found, Symbol) else None
        if known is None and returns_its_argument(nodes.text(call.node)):
            return call.args[0]
        if known is None:
            self.passed_functions.interpret(call.args)
            self.escape(call.args[0])
        return known or UNKNOWN

    # -- threads

    def call_in_new_thread(self, target: Value, call: Call) -> Value:
        """See `Evaluator`."""
        machine = self._machine
        machine.n_relevant += 1
        before = machine.thread
        machine.thread = ThreadState(inherited=(before.device, dict(before.streams)))
        try:
            return self.call(target, call)
        finally:
            machine.thread = before


_BY_KIND: dict[type[Value], str] = {
    Function: "call_function",
    Native: "_call_native",
    Attribute: "_call_attribute",
    Partial: "_call_partial",
    Class: "_construct",
    Module: "_call_layer",
    Instance: "_call_instance",
}
"""Kind of value -> name of the method that calls it."""
