"""Analysis of one file: interpret it as a script, then interpret each function that the script does not reach."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from weakref import ref

from syncheck.findings import Finding, merge_equal
from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.lint import accepted, early_clocks, handovers, models, strict, uses_of_class
from syncheck.lint.assumed_arguments import has_defaults, has_self_parameter, reuse_memory
from syncheck.lint.assumed_objects import AssumedObjects
from syncheck.lint.asynchronous_code import AsynchronousCode
from syncheck.lint.blocking_kernels import waits_for_kernels
from syncheck.lint.budget import Budget, nesting
from syncheck.lint.callers import call_twice, consume, may_need_wait, uses_kept_stream
from syncheck.lint.certainty import adjusted, as_seen_in_source, is_cross_function_timing, merge_by_clock
from syncheck.lint.classes import between_methods, callers_first, has_more_paths, order, with_passed_on, without_changes
from syncheck.lint.given_streams import may_be_given_streams
from syncheck.lint.helpers import helpers_in, uses_helper
from syncheck.lint.imports import Imports
from syncheck.lint.interp import transfers
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.control_flow import Jump, TooLongError
from syncheck.lint.interp.decisions import Flipped
from syncheck.lint.interp.functions import defaults_of
from syncheck.lint.interp.imported import FindFunction
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.premises import Premise
from syncheck.lint.interp.recent_work import RecentWork
from syncheck.lint.interp.scope import LazyScope, Scope, definitions_in, flat
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.values import Call, Class, Constant, Event, Function, Mapping, Sequence, Value
from syncheck.lint.lifetimes import by_reference_count
from syncheck.lint.nodes import Method
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.search import search
from syncheck.lint.prefilter import anchor_lines, clock_aliases, device_names, has_anchor, spans_any
from syncheck.lint.remainders import Missed, Remainders
from syncheck.lint.scripts import does_more_than_define
from syncheck.lint.source_file import SourceFile
from syncheck.lint.timed_work import TimedWork
from syncheck.lint.uncalled_helpers import as_warnings
from syncheck.lint.unreached import ways_to_unreached
from syncheck.rules import (
    event_waits_for_itself,
    graph_uses_freed_memory,
    record_stream_in_capture,
    redundant_wait,
    unordered_graph_replays,
    unordered_side_stream,
)
from syncheck.rules.model import Rule
from syncheck.sanitizer.reported import IN_RUNS_ONLY
from syncheck.sanitizer.reported import RULES as SESSION_RULES

RULES: tuple[Rule, ...] = (
    *(r for r in SESSION_RULES if r not in {redundant_wait.RULE, unordered_graph_replays.RULE, *IN_RUNS_ONLY}),
    *transfers.RULES,
    event_waits_for_itself.RULE,
    record_stream_in_capture.RULE,
    unordered_side_stream.RULE,
)
"""The rules that require interpreting the program, and that of `patterns`."""
_CODES = frozenset(rule.code for rule in RULES if rule is not graph_uses_freed_memory.RULE)  # paths do not show it
_IN_SCRIPTS_ONLY = frozenset({"SYN901", "SYN805", "SYN503", "SYN202", "SYN303"})
"""Rules that depend on what ran before a function was called."""
_WITH_STREAMS_ONLY = frozenset({"SYN804"})
"""Rules about overlap. A function that uses no streams and is interpreted on its own is not meant to overlap."""
_ITERATING = frozenset({"__next__", "next"})
"""Methods that are called repeatedly, each time for another batch."""
_LOADING = _ITERATING | {"__iter__"}
_CHANGED = frozenset({Event, Mapping, Sequence})
"""Kinds of values that other code may have modified."""
_MAX_CALLS = 3
_MAX_PATHS = 8
_MAX_DIRECTED = 4  # further paths, to what these have not reached
_MAX_CLASS_PATHS = 3
_STEPS = 4000

Follow = Callable[[Interpreter], None]
"""Interprets a program."""
MakeInterpreter = Callable[[Machine, Flipped, int, FindFunction], Interpreter]
"""Makes an interpreter from the arguments of `Interpreter`."""


class Analysis:
    """The analysis of one file.

    Attributes:
        asked: the other files that were looked up -> their stamps.
        budget: the statements that may still be interpreted.
        problem: why a check failed; "" if none did.

    Args:
        source: the file.
        interpreter_of: makes the interpreter.
        is_thorough: also interpret functions in which no semantic rule can find anything.
        is_strict: see `syncheck.lint.strict`.
    """

    def __init__(
        self,
        source: SourceFile,
        interpreter_of: MakeInterpreter = Interpreter,
        *,
        is_thorough: bool = False,
        is_strict: bool = False,
    ) -> None:
        self._is_thorough, self._is_strict = is_thorough, is_strict
        self._premises: frozenset[Premise] = frozenset()
        models.load()
        self._source = source
        self._tree = source.tree
        self._interpreter_of = interpreter_of
        self._imports = Imports(source.path)
        self.asked, self.budget, self.problem = self._imports.asked, Budget(), ""
        self._definitions = definitions_in(self._tree.body)
        self._clocks, self._devices = clock_aliases(source.text), device_names(source.text)
        self._anchors = anchor_lines(source.text, self._clocks)
        self._asynchronous = AsynchronousCode(self._tree, source.text, self._imports)
        self._timed = TimedWork(self._tree, source.text, self._clocks) if self._anchors else None
        self._is_script = does_more_than_define(self._tree.body, self._has_anchor_word)
        self._helpers = helpers_in(self._tree.body, self._has_anchor_word)
        self._codes = _CODES - {"SYN701"} if waits_for_kernels(source.text) else _CODES
        self._objects = AssumedObjects()
        self._with_streams = AssumedObjects(has_streams=True)
        self._followed: set[ast.AST] = set()
        self._again: set[tuple[str, SiteId]] = set()
        self._used_by_script: set[ast.AST] = set()
        self._reached: set[ast.AST] = set()

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings. Call this only once: it frees the parts of the tree that reference cycles keep alive."""
        with by_reference_count(), nesting():
            found = self._findings()
        self._definitions.clear()
        return found

    def _findings(self) -> tuple[Finding, ...]:
        found: list[Finding] = self._paths(self._run_script) if self._is_script else []
        self._used_by_script = set(self._followed)
        for function, kind in self._functions():
            was_followed = function in self._followed
            if was_followed and not has_defaults(function):
                continue
            can_matter = self._can_matter(function)
            if not can_matter and not self._asynchronous.is_linked_to(function):
                continue
            known = {(finding.rule, finding.location.frame.line) for finding in found if was_followed}
            alone: list[Finding] = []
            for objects in self._ways(function, kind):
                run = partial(self._run_function, function, kind, objects)
                alone += [f for f in self._paths(run, function, are_few=not can_matter) if objects.may_affect(f.rule)]
            left_out = frozenset() if has_anchor(function) else _WITH_STREAMS_ONLY
            found += [f for f in alone if f.rule.code not in left_out and (f.rule, f.location.frame.line) not in known]
        for statement in flat(self._tree.body):
            if isinstance(statement, ast.ClassDef):
                found += self._in_class(statement, found)
        found += self._without_paths(found)
        used = as_warnings(merge_equal(merge_by_clock(found)), self._tree, self._source.text)
        found = list(accepted.as_warnings(used, self._source.lines))
        if self._is_strict:
            found = list(merge_equal([*found, *strict.more(self._with_premises(), found)]))
        return tuple(replace(finding, count=1, source="lint") for finding in found)

    def _without_paths(self, known: list[Finding]) -> list[Finding]:
        """Return the findings that the syntax of the file shows."""
        kinds = [kind for kind in self._tree.body if isinstance(kind, ast.ClassDef) and self._has_anchor_word(kind)]
        functions = [function for function, _ in self._functions()]
        context = Context(self._source, functions, kinds, self._imports.kind, list(known))
        try:
            self.problem = search(context)
        except RecursionError:
            self.budget.too_deep()
        return context.known[len(known) :]

    def _with_premises(self) -> Iterator[Finding]:
        """Yield the findings that rest on additional assumptions."""
        for self._premises in strict.PASSES:
            self.budget.restart()
            found = self._paths(self._run_script) if self._is_script else []
            for function, kind in self._functions():
                if function not in self._used_by_script and self._can_matter(function):
                    found += self._paths(partial(self._run_function, function, kind, self._objects), function)
            yield from (finding for finding in found if strict.is_likely(finding, self._premises))

    def _can_matter(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        if self._is_thorough or self._is_loader(function):
            return True
        if self._has_anchor_word(function) and has_anchor(function, self._clocks, self._devices):
            return True
        if self._timed is not None and self._timed.is_measured_in(function):
            return True
        return uses_helper(function, self._helpers) or self._asynchronous.is_used_by(function)

    def _in_class(self, kind: ast.ClassDef, known: list[Finding]) -> list[Finding]:
        """Return the findings about conflicts between the methods of a class."""
        has_word, are_linked = self._has_anchor_word(kind), self._asynchronous.are_linked(kind)
        steps = order(kind, is_asynchronous=are_linked) if has_word or are_linked else []
        if not steps or self._used_by_script & {step for step in kind.body if isinstance(step, Method)}:
            return []  # the file itself shows the order in which they are called
        findings: list[Finding] = []
        if self._source.has_asynchronous_collectives and (again := callers_first(steps)):
            found = self._follow(partial(self._run_class, kind, again, self._objects), frozenset())[0]
            findings += [finding for finding in found if finding.rule.code == "SYN601"]
        for objects in self._ways(None, kind):
            run = partial(self._run_class, kind, steps, objects)
            of_first, others = self._follow(run, frozenset(), always=True)
            findings += [f for f in of_first if objects.may_affect(f.rule)]
            more = others[: _MAX_CLASS_PATHS - 1] if has_word and has_more_paths(steps) else []
            for flipped in self.budget.affordable(more):
                findings += [f for f in self._follow(run, flipped)[0] if objects.may_affect(f.rule)]
        return list(between_methods(findings, known))

    def _ways(self, function: Method | None, kind: ast.ClassDef | None) -> list[AssumedObjects]:
        """Return the ways to choose the arguments of a function and a constructor: without streams, and with them."""
        has_both = self._source.enters_streams and may_be_given_streams(function, kind)
        return [self._objects, self._with_streams] if has_both else [self._objects]

    def _has_anchor_word(self, node: ast.stmt) -> bool:
        """Return whether a statement contains an anchor, a word without which no semantic rule reports anything."""
        return spans_any(node, self._anchors)

    def _is_loader(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Return whether a method hands out batches that may have been loaded on a stream of this file."""
        return function.name in _LOADING and "Stream(" in self._source.text

    def _functions(self) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.ClassDef | None]]:
        for statement in flat(self._tree.body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                yield statement, None
            elif isinstance(statement, ast.ClassDef):
                for member in statement.body:
                    if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield member, statement

    def _paths(self, follow: Follow, function: ast.AST | None = None, *, are_few: bool = False) -> list[Finding]:
        """Interpret a program, or one function, on several paths through its undetermined conditions.

        `are_few`: on two paths only, because what it does is in another file, whose conditions open no paths.
        """
        self._reached.clear()
        found, others = self._follow(follow, frozenset())
        for flipped in self.budget.affordable(others[: 1 if are_few else _MAX_PATHS - 1]):
            found += self._follow(follow, flipped)[0]
        if function is None:
            return found
        unreached = [] if are_few else ways_to_unreached(function, self._reached)
        for flipped in self.budget.affordable(unreached[:_MAX_DIRECTED]):
            found += self._follow(follow, flipped)[0]
        return [finding for finding in found if finding.rule.code not in _IN_SCRIPTS_ONLY]

    def _follow(self, follow: Follow, flipped: Flipped, *, always: bool = False) -> tuple[list[Finding], list[Flipped]]:
        """Interpret a program on one path. Return its findings, and the other paths worth interpreting.

        Args:
            follow: interprets the program.
            flipped: see `Decisions`.
            always: return other paths even if this one has no operation that could lead to a finding.
        """
        if not self.budget.is_left():
            return [], []
        sites = SourceSites(self._source, self._premises)
        machine = Machine(self._codes, sites)
        self._again.clear()
        machine.session.device_type(self._source.device_type)
        interpreter = self._interpreter_of(machine, flipped, _STEPS, self._imports.function)
        try:
            follow(interpreter)
            interpreter.transfers.given.ended()
        except (Jump, TooLongError):
            machine.unsure.add(UNKNOWN_SITE)  # the rest may record any event
        except RecursionError:
            self.budget.too_deep()
        except ValueError as error:
            if "generator already executing" not in str(error):  # otherwise it is a bug of ours
                raise
        self.budget.use(_STEPS - max(interpreter.steps_left, 0) + interpreter.calls.imported.n_steps)
        report = machine.session.report(sites)
        texts = {(code, sites.location(site).frame): text for (code, site), text in sites.premises.found.items()}
        self._followed |= interpreter.calls.followed
        self._reached.update(sites.nodes)
        others = interpreter.decisions.others() if machine.n_relevant or always else []
        is_unsure = UNKNOWN_SITE in machine.unsure
        unsure = {sites.location(site).frame for site in machine.unsure}
        foreign = {(code, sites.location(site).frame) for code, site in machine.imported.of_other_files()}
        found = [
            as_seen_in_source(finding)
            for finding in strict.with_premises_first(report.findings, texts, sites.premises, self._premises)
            if not is_cross_function_timing(finding, self._tree)
            and (finding.rule.code, finding.location.frame) not in foreign
            and not (finding.rule.code == "SYN401" and (flipped or is_unsure or finding.location.frame in unsure))
        ]
        found = list(handovers.at_return(found, sites))
        found += early_clocks.findings(machine.recent.early.found, machine.guesses, sites, self._tree)
        guesses = {sites.location(site).frame: is_likely for site, is_likely in machine.guesses.items()}
        copies = {sites.location(site).frame for site in machine.assumed_copies}
        again = {(code, sites.location(site).frame) for code, site in self._again}
        moves = {sites.location(site).frame for site in machine.moves}
        found = list(with_passed_on(found, interpreter.calls.passed_functions.followed, moves, again))
        has_chosen = interpreter.decisions.are_open
        interpreter.forget()
        missed = self._missed(machine.recent, sites)
        of_callers = machine.of_callers | sites.flows.assumed_for({finding.rule.code for finding in found})
        callers = {(codes, sites.location(site).frame): text for (codes, site), text in of_callers.items()}
        given = (guesses, copies | moves, self._tree, callers)
        return list(adjusted(found, *given, missed=missed, has_chosen=has_chosen)), others

    def _missed(self, recent: RecentWork, sites: SourceSites) -> Missed:
        little = recent.loops.remainders | recent.intervals.ends
        return Missed(
            Remainders.of(recent.ends, sites),
            Remainders.of(recent.intervals.parts, sites),
            Remainders.of(little, sites, are_reported=self._is_strict),
        )

    # -- entry points

    def _run_script(self, interpreter: Interpreter) -> None:
        scope = Scope()
        interpreter.modules.append(ref(scope))
        scope.names["__name__"] = Constant("__main__")
        interpreter.run(self._tree.body, scope)
        kept = tensors_in(Sequence(list(scope.names.values())))  # as long as the program runs
        interpreter.machine.sites.flows.read_by_host(tensor.block.ident for tensor in kept)

    def _scope(self, interpreter: Interpreter) -> LazyScope:
        """Return the names of the file as seen by a function that is interpreted on its own."""

        def define(statement: ast.stmt, inside: Scope) -> None:
            machine = interpreter.machine
            user = machine.current_node
            with machine.earlier.run(machine):
                interpreter.run([statement], inside)
            machine.current_node = user
            inside.names |= {name: without_changes(v) for name, v in inside.names.items() if v.__class__ in _CHANGED}

        scope = LazyScope(self._definitions.get, define)
        interpreter.modules.append(ref(scope))
        return scope

    def _run_function(
        self, function: Method, kind: ast.ClassDef | None, objects: AssumedObjects, interpreter: Interpreter
    ) -> None:
        scope = self._scope(interpreter)
        interpreter.machine.current_node = function
        interpreter.calls.passed_functions.are_followed_at_end = True
        evaluated_defaults = partial(defaults_of, function, lambda node: interpreter.evaluate(node, scope))
        if kind is None:
            found = scope.find(function.name)
            if isinstance(found, Function):
                self._call(interpreter, found, [], objects)
            if function not in interpreter.calls.followed:  # replaced by a decorator that is not followed to its call
                self._call(interpreter, Function(function, scope, evaluated_defaults()), [], objects)
            interpreter.collectives.escape_all(scope.names.values())  # other functions see the file's names
            return
        made = scope.find(kind.name)
        if not isinstance(made, Class):
            return
        member = made.members.get(function.name)
        if not isinstance(member, Function):  # replaced by an unknown decorator
            member = Function(function, made.scope, evaluated_defaults())
        args: list[Value] = [objects.used(interpreter, made, function)] if has_self_parameter(member) else []
        interpreter.decisions.begin()
        self._call(interpreter, member, args, objects)
        interpreter.collectives.escape_all(scope.names.values())

    def _run_class(
        self, kind: ast.ClassDef, steps: list[Method], objects: AssumedObjects, interpreter: Interpreter
    ) -> None:
        made = self._scope(interpreter).find(kind.name)
        if not isinstance(made, Class):
            return
        uses_of_class.follow(interpreter, made, steps, objects)

    def _call(self, interpreter: Interpreter, function: Function, args: list[Value], objects: AssumedObjects) -> None:
        interpreter.machine.assume_synchronized()
        known, is_for_caller = objects.arguments(interpreter, function), False
        for _ in range(_MAX_CALLS if getattr(function.node, "name", "") in _ITERATING else 1):
            before = interpreter.machine.next_ident()
            result = interpreter.call_function(function, Call(function.node, list(args), known, is_complete=False))
            consume(interpreter, result, function.node, before)
            is_for_caller = may_need_wait(interpreter.machine, result)
            del result
        if not args and not is_for_caller and uses_kept_stream(interpreter):
            self._again |= call_twice(interpreter, function, known)
        if not is_for_caller:
            reuse_memory(interpreter.machine, function.node)
        for value in (*args, *known.values()):
            interpreter.escape(value)
