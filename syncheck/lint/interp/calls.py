"""Calls: to functions of the program, which are followed, to torch's, and to those that nobody knows."""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from syncheck.hb.ids import NamedKind
from syncheck.lint.interp.contexts import Contexts
from syncheck.lint.interp.control_flow import Returned
from syncheck.lint.interp.functions import bind, is_generator
from syncheck.lint.interp.iteration import Iteration
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.naming import name_of
from syncheck.lint.interp.operators import Operators, is_list
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.transfers import Transfers
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Attribute,
    Call,
    Class,
    ClockReading,
    Context,
    Event,
    Function,
    Generator,
    Instance,
    Mapping,
    Module,
    Partial,
    Query,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Value,
    Work,
    tensors_in,
)
from syncheck.lint.models.methods import Methods
from syncheck.lint.models.torch_functions import Api
from syncheck.semantics.threads import ThreadState

if TYPE_CHECKING:
    from syncheck.lint.interp.collectives import Collectives

_MAY_ORDER = re.compile(r"sync|wait|barrier|join|flush|finish|finali[sz]e|drain|block", re.IGNORECASE)
_CHANGES_NOTHING = re.compile(
    r"(^|\.)(classmethod|abstractmethod|override|final|overload|wraps|compile|script|ignore|unused|export|disable|annotate"
    r"|custom_(fwd|bwd)|once_differentiable|fixture|mark(\.\w+)*|setter|deleter|dataclass|total_ordering|runtime_checkable"
    r"|nvtx\w*|record_function|enable_grad)\b|instrument|nvtx"
)
"""Decorators that leave what a function or a class does as it is, as far as the order of work depends on it."""
_DEEPEST = 12


class Calls:
    """Makes calls.

    Attributes:
        steps: statements that may still be followed.
    """

    def __init__(self, machine: Machine, collectives: "Collectives", decisions: tuple[bool, ...], steps: int) -> None:
        self.machine = machine
        self.operators = Operators(machine)
        self.transfers = Transfers(machine, self.operators)
        self.collectives = collectives
        self.api = Api(self)
        self.methods = Methods(self)
        self.iteration = Iteration(self)
        self.contexts = Contexts(self)
        self.steps = steps
        self._depth = 0
        self._decisions = decisions
        self._made: dict[str, bool] = {}  # text of a condition -> how it was decided
        self.n_decisions = 0
        self._running: list[ast.AST] = []
        self.followed: set[ast.AST] = set()  # functions that were followed

    # -- for the parts that know statements and expressions

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Run statements."""
        raise NotImplementedError

    def block(self, body: list[ast.stmt], scope: Scope) -> Iterator[Value]:
        """Run statements, as a generator."""
        raise NotImplementedError

    def evaluate(self, node: ast.expr | None, scope: Scope) -> Value:
        """Evaluate an expression."""
        raise NotImplementedError

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """Return an attribute of a value."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value, scope: Scope, *, is_same: bool = False) -> None:
        """Bind a target to a value."""
        raise NotImplementedError

    def condition(self, test: ast.expr, scope: Scope) -> bool | None:
        """Evaluate a condition; None where nobody knows."""
        raise NotImplementedError

    # -- decisions

    def decide(self, test: ast.expr) -> bool:
        """Choose a branch where nobody knows; the same condition is decided in the same way."""
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        text = ast.unparse(test.operand if isinstance(test, ast.UnaryOp) and negated else test)
        if text not in self._made:
            number, self.n_decisions = self.n_decisions, self.n_decisions + 1
            wanted = self._decisions[number] if number < len(self._decisions) else True
            self._made[text] = wanted != negated
        return self._made[text] != negated

    def forget_decisions(self, name: str) -> None:
        """A name stands for something else now: conditions with it are open again."""
        if self._made:
            word = re.compile(rf"\b{re.escape(name)}\b")
            self._made = {text: made for text, made in self._made.items() if not word.search(text)}

    # -- calls

    def call(self, function: Value, call: Call, scope: Scope | None = None) -> Value:
        """Call a value."""
        match function:
            case Function():
                result = self.call_function(function, call)
            case Partial():
                result = self._call_bound(function, call, scope)
            case Symbol(path=path):
                result = self._call_name(path, call, scope)
            case Attribute():
                result = self.methods.call(function.owner, function.name, call)
            case Class():
                result = self.construct(function, call)
            case Module():
                result = self._call_net(function, call)
            case Instance():
                result = self._call_instance(function, call)
            case _:
                result = self.call_unknown("", call)
        return result

    def _call_bound(self, function: Partial, call: Call, scope: Scope | None) -> Value:
        args, kwargs = [*function.args, *call.args], {**function.kwargs, **call.kwargs}
        return self.call(function.function, Call(call.node, args, kwargs, call.is_complete), scope)

    def _call_name(self, path: str, call: Call, scope: Scope | None) -> Value:
        if path == "builtins.super" and scope is not None:
            return self._super(scope)
        found = self.api.call(path, call)
        return self.call_unknown(path, call) if found is None else found

    def _super(self, scope: Scope) -> Value:
        """Return the object itself, seen as one of its class's base."""
        instance = next((value for value in scope.names.values() if isinstance(value, Instance)), None)
        bases = [base for base in instance.kind.bases if isinstance(base, Class)] if instance is not None else []
        return Instance(bases[0], instance.attributes) if bases and instance is not None else UNKNOWN

    def call_unknown(self, name: str, call: Call) -> Value:
        """Call code that nobody knows: with a stream or an event in hand it is taken to do right."""
        has_tensor = any(tensor.block.device is not None for value in call.values() for tensor in tensors_in(value))
        for value in call.values():
            self.escape(value)
        if has_tensor or not name or _MAY_ORDER.search(name.rpartition(".")[2]):
            self.machine.assume_synchronized()
        return UNKNOWN

    def escape(self, value: Value, depth: int = 4) -> None:
        """A value goes where it cannot be followed."""
        if not depth or self.machine.ordering_only:
            if isinstance(value, Stream | Event):
                self.machine.assume_synchronized()
            return
        match value:
            case Stream():
                self.machine.assume_synchronized()
            case Event():
                value.escaped = True
                self.machine.assume_synchronized()
            case Tensor():
                value.block.escaped = True
            case Work():
                self.collectives.escape(value)
            case _:
                for item in _held_by(value):
                    self.escape(item, depth - 1)

    # -- functions of the program

    def call_function(self, function: Function, call: Call) -> Value:
        """Follow a function of the program; one that is too deep is not known."""
        node = function.node
        self.followed.add(node)
        if self._depth >= _DEEPEST or self._running.count(node) > 1:
            return self.call_unknown(getattr(node, "name", ""), call)
        scope = Scope(function.scope)
        scope.names = bind(function, call)
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body, scope)
        call.args.clear()
        if is_generator(node):
            return Generator(self._generate(node, scope))
        return self._follow(node, scope)

    def _follow(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Value:
        caller, function = self.machine.current_node, self.machine.function
        self._depth += 1
        self._running.append(node)
        self.machine.function = node.name
        try:
            self.run(node.body, scope)
        except Returned as returned:
            return returned.value
        finally:
            scope.names.clear()
            self._depth -= 1
            self._running.pop()
            self.machine.current_node, self.machine.function = caller, function
        return NONE

    def _generate(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Iterator[Value]:
        try:
            yield from self.block(node.body, scope)
        except Returned:
            return
        finally:
            scope.names.clear()

    def construct(self, kind: Class, call: Call) -> Value:
        """Make an object of a class of the program."""
        instance = Instance(kind)
        begin = kind.find("__init__")
        if isinstance(begin, Function):
            self.call_function(begin, Call(call.node, [instance, *call.args], call.kwargs, call.is_complete))
        elif any("dataclass" in ast.unparse(decorator) for decorator in kind.node.decorator_list):
            fields = [item.target.id for item in kind.node.body
                      if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]  # fmt: skip
            instance.attributes |= dict(zip(fields, call.args, strict=False)) | call.kwargs
        elif not kind.is_known or kind.find("__new__") is not None:
            for value in call.values():
                self.escape(value)
        return instance

    def _call_instance(self, instance: Instance, call: Call) -> Value:
        name = "__call__" if instance.kind.find("__call__") else "forward" if instance.kind.is_net else "__call__"
        member = instance.kind.find(name)
        if isinstance(member, Function):
            return self.call_function(member, Call(call.node, [instance, *call.args], call.kwargs, call.is_complete))
        return self.call_unknown("", call)

    def _call_net(self, net: Module, call: Call) -> Value:
        inputs = tensors_in(Sequence(call.values()))
        if not inputs:
            return self.call_unknown("", call)
        weight = [net.weight] if net.weight is not None else []
        return self.operators.run("aten::addmm", [*inputs, *weight], call)

    def decorate(self, function: Value, decorator: ast.expr, scope: Scope) -> Value:
        """Apply a decorator: those that change nothing here, and those of the program."""
        name = ast.unparse(decorator)
        if isinstance(function, Function) and name == "staticmethod":
            function.is_static = True
            return function
        if isinstance(function, Function) and (name == "property" or name.endswith("cached_property")):
            function.is_property, function.is_cached = True, name != "property"
            return function
        if _CHANGES_NOTHING.search(name):
            return function
        found = self.evaluate(decorator, scope)
        if isinstance(found, Symbol) and found.path.endswith("contextmanager"):
            return Partial(Symbol("syncheck.contextmanager"), [function])
        if isinstance(found, Context):
            return Partial(Symbol("syncheck.within"), [found, function])
        return self.call(found, Call(decorator, [function]), scope)

    def close(self, owner: Value, node: ast.AST) -> Value:
        """Call a value's `close()`."""
        return self.call(self.attribute(owner, "close", node), Call(node, []))

    # -- threads

    def in_new_thread(self, target: Value, call: Call) -> Value:
        """Run a function as a thread of its own would, from beginning to end."""
        self.machine.n_relevant += 1
        before = self.machine.thread
        self.machine.thread = ThreadState(inherited=(before.device, dict(before.streams)))
        try:
            return self.call(target, call)
        finally:
            self.machine.thread = before

    # -- clocks, parts, questions

    def is_used(self, name: str) -> bool:
        """Tell whether the function that runs uses a name anywhere."""
        around = self._running[-1] if self._running else None
        return around is None or any(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
            for node in ast.walk(around)
        )

    def observe_truth_test(self, value: Value) -> None:
        """A condition looks at a value: one that asks whether work is complete takes the answer into account."""
        if isinstance(value, Query):
            if value.event is not None:
                value.event.escaped = True
            self.machine.assume_synchronized()

    def difference(self, later: ClockReading, earlier: Value) -> Value:
        """Subtract two readings of a clock."""
        if isinstance(earlier, ClockReading) and not self.machine.ordering_only:
            self.machine.session.clock_difference(earlier.ident, later.ident)
        return UNKNOWN

    def write_part(self, owner: Tensor, index: Value, value: Value, node: ast.AST) -> None:
        """Run `owner[index] = value`."""
        picks, values = tensors_in(index), tensors_in(value)
        if picks or is_list(node):
            self.operators.index_put(owner, picks, values, node)
            return
        part = self.operators.alias(owner, self.operators.part_of(owner, index))
        if values and values[-1].block.device != part.block.device:
            self.transfers.method(part, "copy_", Call(node, [values[-1]]))
        else:
            self.operators.in_place("copy_", part, values, Call(node, []))

    # -- names

    def name_findings(self, scope: Scope, statement: ast.stmt) -> None:
        """Tell the session what the tensors of new findings are called here."""
        if not self.machine.new_findings:
            return
        for finding in self.machine.take_new_findings():
            name = name_of(finding.allocation, scope, ast.unparse(statement)) if finding.allocation else ""
            if name:
                self.machine.session.name(NamedKind.ALLOCATION, finding.allocation, name)


def _held_by(value: Value) -> list[Value]:
    match value:
        case Sequence(items=items):
            return items
        case Mapping(items=items):
            return list(items.values())
        case Instance(attributes=attributes):
            return list(attributes.values())
        case Partial(args=args, kwargs=kwargs):
            return [*args, *kwargs.values()]
        case _:
            return []
