"""Choice of expressions for streams, events and tensors that are valid on a line of the program."""

import ast
from dataclasses import dataclass, field

from syncheck.findings import EditKind, Frame
from syncheck.hb.ids import AllocationId, NamedKind, SiteId, StreamId
from syncheck.sanitizer.device_names import WITH_DEFAULT_STREAM
from syncheck.sanitizer.insertion import (
    are_in_one_library_call,
    before_stream_block,
    can_insert,
    is_called_elsewhere,
    is_unbound_item,
    launches,
    runs_again,
    runs_backward,
)
from syncheck.sanitizer.messages import (
    DeviceSyncCode,
    EventCode,
    GroupCode,
    Names,
    Part,
    RecordedStreamCode,
    ResultCode,
    StreamCode,
    TensorCode,
    Text,
    TorchCode,
    WaitCode,
)
from syncheck.sanitizer.monitor import Sites, SourceLine
from syncheck.sanitizer.results import is_new_tensor, may_return_none
from syncheck.source.expressions import argument_of_call
from syncheck.source.gpu_checks import may_lack_gpu
from syncheck.source.handles import container_in, last_taken, returns_several, wait_for, wait_for_all, wait_for_result


@dataclass(frozen=True, slots=True)
class Target:
    """The place of an edit.

    Attributes:
        line: the line of the program.
        is_usable: whether it can be edited: the file is readable, a statement begins there, and the names are bound.
        is_split: whether the edit belongs inside the line's statement, which also launches the work that must precede
            it.
        may_be_none: whether the call on the line may return None.
        inner: the line of a hook that launches that work, if the statement is a backward pass, which calls the hook.
    """

    line: SourceLine
    is_usable: bool
    is_split: bool = False
    may_be_none: bool = False
    inner: SourceLine | None = None

    def shown_line(self, kind: EditKind) -> int:
        """Return the line to show: the first or last one of the statement for an insertion before or after it."""
        statement = self.line.statement
        if statement is None or self.is_split:
            return self.line.number
        if kind is EditKind.INSERT_BEFORE:
            return statement.lineno
        return (statement.end_lineno or statement.lineno) if kind is EditKind.INSERT_AFTER else self.line.number


@dataclass(slots=True)
class Spelled:
    """Code whose references are replaced by names valid on a line.

    Attributes:
        code: the code, with placeholders such as "<stream>" where there is no name.
        missing: placeholder -> description of the object.
        is_usable: whether every name is bound on the line.
        checks: the conditions for running it, as that a handle, a stream, an event or a tensor is not None.
        streams: name -> the stream that it stands for.
    """

    code: str = ""
    missing: dict[str, str] = field(default_factory=dict)
    is_usable: bool = True
    checks: list[str] = field(default_factory=list)
    streams: dict[str, StreamId] = field(default_factory=dict)

    @property
    def statement(self) -> str:
        """Return the code, guarded by its conditions."""
        checks = " and ".join(dict.fromkeys(self.checks))
        return f"if {checks}: {self.code}" if checks else self.code

    def add_name(self, name: str, line: SourceLine) -> None:
        """Append the name of an object that may be None."""
        self.code += name
        if line.scopes is not None and line.scopes.may_be_none(name, line.number):
            self.checks.append(f"{name} is not None")


_COALESCING = frozenset({"_coalescing_manager"})


class Spelling:
    """Chooses targets and names for edits.

    Args:
        names: the program's names for its objects.
        sites: the call sites.
    """

    def __init__(self, names: Names, sites: Sites) -> None:
        self._names = names
        self._sites = sites

    # -- targets

    def target(self, kind: EditKind, site: SiteId, code: Text, other: SiteId) -> Target:
        """Return the location of an edit.

        Args:
            kind: the kind of edit.
            site: the call that it concerns.
            code: its code, whose names must be bound there.
            other: the call that must stay on the other side of the inserted line; 0 if there is none.
        """
        if kind is EditKind.INSERT_BEFORE:
            return self._insertion_target(site, code, other)
        if kind is EditKind.INSERT_AFTER:
            return self._target_after(site, code, other)
        line = self._sites.lines_of(site)[0]
        scopes = line.scopes
        if scopes is None:
            return Target(line, is_usable=False)
        if kind is EditKind.APPEND_CALL:
            may_be_none = may_return_none(line)
            is_list = returns_several(line.statement, line.number, line.column)
            is_usable = scopes.is_call_statement(line.number, line.column) and not may_be_none and not is_list
            return Target(line, is_usable, may_be_none=may_be_none)
        return Target(line, is_usable=True)

    def _insertion_target(self, site: SiteId, code: Text, after: SiteId) -> Target:
        """Return where a statement can be inserted before a call: at its own line, or at that of a caller."""
        lines = self._sites.lines_of(site)
        earlier = self._sites.lines_of(after) if after else ()
        is_again = runs_again(self._sites, site, after)
        for depth, line in enumerate(lines):
            if is_called_elsewhere(line, lines[depth + 1 :]):
                continue
            before = () if is_again else earlier
            if (depth and is_again) or not can_insert(line, before):
                continue
            if self.spell(_for_caller(code) if depth else code, line).is_usable:
                return Target(line, is_usable=True)
            outside = None if self._names.is_run else before_stream_block(line)
            if outside and can_insert(outside, before) and self.spell(_for_caller(code), outside).is_usable:
                return Target(outside, is_usable=True)
        callers = (line for depth, line in enumerate(lines) if not is_called_elsewhere(line, lines[depth + 1 :]))
        line = next(callers, lines[0])
        is_split = not is_again and line is lines[0] and launches(line, earlier)
        is_in_hook = is_split and earlier[0].number != line.number and runs_backward(line.statement)
        return Target(line, is_usable=False, is_split=is_split, inner=earlier[0] if is_in_hook else None)

    def _target_after(self, site: SiteId, code: Text, before: SiteId) -> Target:
        """Return where a statement can be inserted after a call: at its own line, or at that of a caller."""
        lines = self._sites.lines_of(site)
        passed = {(line.path, line.number) for line in (self._sites.lines_of(before) if before else ())}
        is_in_one_call = are_in_one_library_call(self._sites.location(site).stack, self._sites.location(before).stack)
        for depth, line in enumerate(lines):
            if line.scopes is None or ((depth or is_in_one_call) and (line.path, line.number) in passed):
                break  # the call that must come later is inside this one
            if is_called_elsewhere(line, lines[depth + 1 :]):
                continue
            if not line.scopes.can_insert_after(line.number) or not self._is_stable(code, line, passed):
                continue
            if not depth or self.spell(_for_caller(code), line).is_usable:
                return Target(line, is_usable=True)
        return Target(lines[0], is_usable=False)

    def _is_stable(self, code: Text, line: SourceLine, late: set[tuple[str, int]]) -> bool:
        """Return whether the names in code mean the same on an earlier line as on a later one, across iterations."""
        scopes = line.scopes
        is_again = (line.path, line.number) in late  # in another iteration, or in another call of the function
        for part in code:
            if scopes is None or not isinstance(part, StreamCode | EventCode) or getattr(part, "is_current", False):
                continue
            name = self.spell((part,), line).code
            if scopes.is_rebound(name, line.number) or (is_again and scopes.uses_local_variable(name, line.number)):
                return False
        return True

    def is_for_one_thread(self, code: Text, line: SourceLine) -> bool:
        """Return whether code after a line is too late for another thread, or names that thread's stream by a local."""
        if (scopes := line.scopes) is None:
            return False
        named = (part for part in code if isinstance(part, StreamCode) and not part.is_current)
        is_local = any(scopes.uses_local_variable(self.spell((part,), line).code, line.number) for part in named)
        return is_local or scopes.is_argument(line.number, line.column)  # such as `queue.put(x.cuda())`

    def author(self, site: SiteId) -> Frame | None:
        """Return the frame of the code that made a call: see `Location.author`."""
        return self._sites.location(site).author

    def spell(self, code: Text, line: SourceLine) -> Spelled:
        """Replace the references in code by names valid on a line."""
        current = (part.stream for part in code if isinstance(part, StreamCode) and part.is_current)
        spelled = Spelled(streams={self._name(NamedKind.STREAM, one, line): one for one in current})  # of other objects
        for part in code:
            match part:
                case str():
                    spelled.code += part
                case StreamCode():
                    self._spell_stream(part, line, spelled)
                case EventCode(event):
                    self._spell_named(NamedKind.EVENT, event, line, spelled)
                case TensorCode(allocation):
                    self._spell_named(NamedKind.ALLOCATION, allocation, line, spelled)
                case GroupCode(kind, ident):
                    self._spell_named(kind, ident, line, spelled)
                case _:
                    self._spell_call_of(part, line, spelled)
        return spelled

    def _spell_call_of(self, part: Part, line: SourceLine, spelled: Spelled) -> None:
        match part:
            case DeviceSyncCode(stream):
                self._spell_call("synchronize", stream, line, spelled)
                if may_lack_gpu(line.scopes):
                    spelled.checks.append(f"{_torch(line, spelled)}.{self._names.device_type}.is_available()")
            case TorchCode(name):
                spelled.code += f"{_torch(line, spelled)}.{name}"
            case ResultCode(site):
                self._spell_result(site, line, spelled)
            case RecordedStreamCode(site):
                self._spell_recorded_stream(site, line, spelled)
            case WaitCode(site, is_functional=True):
                self._spell_wait_for_tensor(site, line, spelled)
            case WaitCode(site):
                self._spell_wait(site, line, spelled)
            case _:
                raise TypeError(f"{part!r} is a phrase, not code")

    def _spell_recorded_stream(self, site: SiteId, line: SourceLine, spelled: Spelled) -> None:
        """Spell the stream that a line passes to `record_stream`."""
        here = self._sites.lines_of(site)[0]
        name = argument_of_call(line.statement, "record_stream", line.number, line.column) if here == line else ""
        self._add(name, "stream", "", spelled)

    def _spell_result(self, site: SiteId, line: SourceLine, spelled: Spelled) -> None:
        """Spell the tensor that a call returns, behind the statement that assigns it."""
        name, frame = self._sites.bound(site), self._sites.location(site).frame
        is_here = self._sites.lines_of(site)[0] == line
        is_valid = is_here and "[" not in name and is_new_tensor(line, frame)
        self._add(name if is_valid else "", "tensor", "", spelled)

    def _spell_wait_for_tensor(self, site: SiteId, line: SourceLine, spelled: Spelled) -> None:
        """Spell the wait for a functional collective, which returns a tensor instead of a handle."""
        name, origin = self._sites.bound(site), self._sites.lines_of(site)[0]
        spelled.code += f"{_torch(line, spelled)}.ops._c10d_functional.wait_tensor("
        is_valid = origin == line or _is_same(name, origin, line)
        self._add(name if is_valid else "", "result", f"what the call at line {origin.number} returns", spelled)
        spelled.code += ")"

    def _spell_stream(self, code: StreamCode, line: SourceLine, spelled: Spelled) -> None:
        stream, is_assumed = code.stream, not self._names.is_run and not code.is_last_resort
        info = self._names.streams[stream]
        is_current = code.is_current and not (line.is_user_code and self._is_library_stream(stream))
        can_be_current = is_current or (is_assumed and before_stream_block(line) is None)
        name = self._name(NamedKind.STREAM, stream, line) if info.handle else ""
        if name and spelled.streams.setdefault(name, stream) == stream:
            spelled.add_name(name, line)
        elif info.handle and not is_current:
            self._add("", "stream", self._names.stream_and_origin(stream), spelled)
        elif can_be_current and spelled.streams.setdefault("current_stream()", stream) == stream:
            self._spell_call("current_stream", stream, line, spelled)
        elif not is_assumed and self._names.device_type in WITH_DEFAULT_STREAM:
            self._spell_call("default_stream", stream, line, spelled)
        else:
            self._add("", "stream", self._names.stream(stream), spelled)

    def _is_library_stream(self, stream: StreamId) -> bool:
        """Return whether a library created a stream, in which case it is not current on lines of user code.

        Frames of generated code, such as the methods of dataclasses, do not count as library code.
        """
        info = self._names.streams[stream]
        frames = self._sites.location(info.site).stack if info.handle else ()
        is_of_library = bool(frames) and not (frames[0].is_user or frames[0].path.startswith("<"))
        return is_of_library or stream in self._names.of_other_files

    def _spell_call(self, function: str, stream: StreamId, line: SourceLine, spelled: Spelled) -> None:
        """Add a call of a function of `torch.cuda` or its counterpart, with the device of a stream."""
        module = f"{_torch(line, spelled)}.{self._names.device_type}"
        spelled.code += f"{module}.{function}({self._names.device_argument(stream)})"

    def _spell_named(self, kind: NamedKind, ident: int, line: SourceLine, spelled: Spelled) -> None:
        name = self._name(kind, ident, line)
        if kind is NamedKind.ALLOCATION and not self._refers_to_tensor(AllocationId(ident), name, line):
            name = ""  # the name may stand for something else there
        if name:
            spelled.add_name(name, line)
            return
        given = self._names.given.get((kind, ident))
        noun = {NamedKind.EVENT: "event", NamedKind.ALLOCATION: "tensor"}.get(kind, "group")
        self._add("", noun, f"`{given}`" if given else "", spelled)

    def _refers_to_tensor(self, allocation: AllocationId, name: str, line: SourceLine) -> bool:
        """Return whether a name certainly refers to a tensor on a line.

        This holds if the name is used there, was observed to hold the tensor there, or held it until it was freed.
        """
        if name and self._names.owners.get(allocation) == (name, line.path, line.function):
            return True
        if line.scopes is None or line.scopes.is_mentioned(name, line.number, is_bound=False):
            return True
        seen = self._names.seen_at.get((NamedKind.ALLOCATION, allocation), {})
        if name and seen.get((line.path, line.number)) == name:
            return True
        is_held = self._names.held_until_freed.get(allocation) == name
        return is_held and line.scopes.is_bound_once(name, line.number)

    def _spell_wait(self, site: SiteId, line: SourceLine, spelled: Spelled) -> None:
        name = self._sites.bound(site)
        origin = self._sites.lines_of(site)[0]
        scopes = origin.scopes
        around = scopes.manager_around(origin.number, _COALESCING) if scopes is not None else None
        manager = ast.unparse(around.optional_vars) if around is not None and around.optional_vars is not None else ""
        if manager and _is_same(manager, origin, line):
            spelled.code += f"{manager}.wait()"
            return
        statement = origin.statement
        wait = wait_for(name, statement, origin.number, origin.column)
        may_be_none = may_return_none(origin)
        is_one_of_many = name.endswith("[...]")
        is_there = origin == line or _is_same(name.removesuffix("[...]"), origin, line)
        is_asked = line.scopes is not None and "[" not in name and line.scopes.may_be_none(name, line.number)
        is_sure = is_asked or is_one_of_many or scopes is None or scopes.shares_conditions(origin.number, line.number)
        is_there &= is_sure and not (may_be_none and is_one_of_many) and not is_unbound_item(name, origin, line)
        if wait and is_there:
            spelled.code += wait
            spelled.checks += [f"{name} is not None"] if may_be_none or is_asked else []
            return
        stored_in = container_in(statement)
        kind = scopes.kind_of_container(stored_in) if scopes is not None else ""
        others = line.scopes.own_statements(line.number) if line.scopes is not None and stored_in else ()
        taken = last_taken(others, stored_in, line.number)
        container, wait = wait_for_all(statement, origin.number, origin.column, kind, taken)
        if container and _is_same(container, origin, line) and not may_be_none:
            spelled.code += wait
            return
        where = f"line {origin.number}" if origin.path == line.path else f"{origin.path}:{origin.number}"
        self._add("", "handle", f"what the call at {where} returns", spelled)
        spelled.code = wait_for_result(spelled.code, statement, origin.number, origin.column)

    def _add(self, name: str, placeholder: str, what: str, spelled: Spelled) -> None:
        """Add a name, or a placeholder that stands for `what` if there is none."""
        if name:
            spelled.code += name
            return
        text = f"<{placeholder}>"
        if spelled.missing.get(text, what) != what:
            text = f"<other {placeholder}>"
        spelled.missing[text] = what
        spelled.code += text
        spelled.is_usable = False

    def _name(self, kind: NamedKind, ident: int, line: SourceLine) -> str:
        """Return an object's name on a line; "" if it has no known name there."""
        seen = self._names.seen_at.get((kind, ident), {})
        name_here = seen.get((line.path, line.number), "")
        if name_here and (line.scopes is None or line.scopes.is_always_valid(name_here, line.number)):
            return name_here
        for (path, number), name in seen.items():
            if _is_same(name, SourceLine(path, number), line):
                return name
        given = self._names.given.get((kind, ident), "")
        known_at = self._names.known_at.get((kind, ident))
        if not given or known_at is None:
            return ""
        return given if _is_same(given, self._sites.lines_of(known_at)[0], line) else ""


def _torch(line: SourceLine, spelled: Spelled) -> str:
    """Return the name of the torch module on a line; the code is unusable if torch is not imported there."""
    name = line.scopes.name_of_import("torch", line.number) if line.scopes is not None else "torch"
    spelled.is_usable &= bool(name)
    return name or "torch"


def _for_caller(code: Text) -> Text:
    """Return code for a caller's line, where a different stream may be current than at the call."""
    return tuple(part._replace(is_current=False) if isinstance(part, StreamCode) else part for part in code)


def _is_same(expression: str, known_at: SourceLine, line: SourceLine) -> bool:
    """Return whether an expression that is valid on one line means the same on another."""
    if known_at.path != line.path:
        return False
    if line.scopes is None:
        return known_at.function == line.function
    return line.scopes.has_same_meaning(expression, known_at.number, line.number)
