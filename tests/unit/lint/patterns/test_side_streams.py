"""Streams kept by an object that no method orders against its callers' streams."""

import ast
import textwrap

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint.patterns.side_streams import can_matter, findings
from syncheck.lint.source_file import SourceFile
from syncheck.rules.catalogue import find
from tests.unit.lint.checking import context_of

HEAD = "class A{base}:\n    def __init__(self):\n        self.s = {stream}\n"
LOAD = "y = x.to(self.device, non_blocking=True)"
COPY = "self.out.copy_(self.given)"
JOIN = "torch.cuda.current_stream().wait_stream(self.s)"


def found(source, known=()):
    file = SourceFile("program.py", source)
    classes = [kind for kind in file.tree.body if isinstance(kind, ast.ClassDef)]
    return [(f.rule.code, f.location.frame.line, f.message) for f in findings(context_of(file, known, classes=classes))]


def klass(work, *other, base="", stream="torch.cuda.Stream()"):
    """Return a class whose stream is current around some work; other statements go into a second method."""
    lines = [*(other or ("pass",))]
    body = textwrap.indent(f"def run(self):\n    with torch.cuda.stream(self.s):\n        {work}\n", "    ")
    rest = "    def other(self):\n" + "".join(f"        {line}\n" for line in lines)
    return HEAD.format(base=base, stream=stream) + body + rest


def is_found(*args, **kwargs):
    return bool(found(klass(*args, **kwargs)))


def test_a_stream_that_nothing_waits_for_is_reported_where_it_is_current():
    ((code, line, message),) = found(klass(LOAD))
    assert (code, line) == ("SYN105", 5)
    assert "nothing waits for stream `self.s`" in message
    assert can_matter(klass(LOAD))


def test_a_stream_that_never_waits_for_its_copies_sources_is_reported():
    ((_, line, message),) = found(klass(COPY, JOIN))
    assert line == 5
    assert "never waits for the stream that computes what it copies here" in message


def test_a_wait_in_the_constructor_orders_nothing_later():
    fork = "Stream()\n        self.s.wait_stream(torch.cuda.current_stream())\n"
    early = (
        klass("y = torch.matmul(x, self.w)", JOIN).replace("run(self)", "run(self, x)").replace("Stream()\n", fork, 1)
    )
    ((code, line, _),) = found(early)
    assert (code, line) == ("SYN105", 6)
    assert found(klass(COPY, JOIN).replace("Stream()\n", fork, 1)) == []  # may be written only before that wait


def test_a_wait_by_another_object_orders_what_the_stream_copies():
    outside = "class B:\n    def go(self, a):\n        a.s.wait_stream(torch.cuda.current_stream())\n        a.run()\n"
    assert found(klass(COPY, JOIN) + outside) == []


# -- data movement


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (LOAD, True),
        ("y = x.cuda(non_blocking=True)", True),
        ("y.copy_(x)", True),
        ("y = x.cuda()", False),
        ("y = x.to(d, True)", True),
        ("y = x.to(d)", False),
        ("y.copy_(x, non_blocking=False)", False),
        ("y = x + 1", False),
        ("def f(): x.cuda()", False),
    ],
)
def test_only_a_block_that_moves_data_is_reported(work, expected):
    assert is_found(work) is expected


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (COPY, True), ("a.copy_(b)", True), ("out = f(); out.copy_(self.x)", False),
        ("out = self.y; out.copy_(x)", True),
        ("given = f(); self.out.copy_(given)", False), (LOAD, False), ("a.copy_()", False), ("copy_(a, b)", False),
    ],
)  # fmt: skip
def test_a_copy_between_outside_tensors_needs_a_wait(work, expected):
    assert is_found(work, JOIN) is expected


# -- ordering


@pytest.mark.parametrize(
    "statement",
    ["self.s.wait_stream(other)", "self.s.wait_event(done)", "done.wait(self.s)", "done.wait(stream=self.s)"],
)
def test_a_stream_that_waits_needs_only_to_be_waited_for(statement):
    ((_, _, message),) = found(klass(LOAD, statement))
    assert message == "nothing waits for stream `self.s`, whose results are used elsewhere"
    assert not is_found("pinned.copy_(x, non_blocking=True)", statement)  # the host may wait elsewhere
    assert not is_found("self.b.copy_(x, non_blocking=True)", statement, "self.b = torch.empty(4, pin_memory=True)")
    assert not is_found(f"{LOAD}; n = float(y.sum())", statement)
    assert not is_found(f"{LOAD}; self.other()", statement, "self.done.record()")
    assert not is_found(COPY, JOIN, statement)


@pytest.mark.parametrize(
    "statement",
    [
        JOIN,
        "done = self.s.record_event()",
        "done.record(self.s)",
        "done.record(stream=self.s)",
        "ready = self.s.query()",
    ],
)
def test_a_stream_that_is_waited_for_may_load(statement):
    assert not is_found(LOAD, statement)
    assert is_found(COPY, statement)


def test_host_synchronization_may_order_everything():
    assert not is_found(LOAD, "torch.cuda.synchronize()")
    assert not is_found(LOAD, "synchronize()")
    assert not is_found(COPY, JOIN, "self.s.synchronize()")


@pytest.mark.parametrize("call", ["loss.item()", "y.cpu()", "y.tolist()", "done.record()", "s.record_event()"])
def test_a_block_that_waits_for_its_own_work_is_not_reported(call):
    assert not is_found(f"{LOAD}; {call}")


@pytest.mark.parametrize("call", ["torch.cuda.current_stream().wait_event(e)", "e.wait()", "s.wait_stream(t)"])
def test_a_block_that_waits_for_others_is_ordered_after_them(call):
    assert "waits for no other stream" not in found(klass(f"{LOAD}; {call}"))[0][2]
    assert not is_found(f"{COPY}; {call}", JOIN)


# -- escaping streams


@pytest.mark.parametrize(
    "statement",
    ["f(self.s)", "return self.s", "x = self.s", "x = [self.s]", "self.s.priority", "f(stream=self.s)",
     "self.s.cuda_stream", "b = [c for c in d if self.s]"],
)  # fmt: skip
def test_an_escaping_stream_may_be_ordered_elsewhere(statement):
    assert not is_found(LOAD, statement)


@pytest.mark.parametrize(
    "statement",
    ["if self.s is None: pass", "if self.s: pass", "a = not self.s", "a = self.s and b", "a = self.s.device",
     "x.record_stream(self.s)", "self.s = None", "f(a.s())", "x.s()"],
)  # fmt: skip
def test_a_stream_that_is_only_inspected_does_not_escape(statement):
    assert is_found(LOAD, statement)


def test_a_use_in_any_class_counts():
    other = "class B:\n    def f(self, a):\n        b.wait_stream(a.s)\n"
    assert found(klass(LOAD) + other) == []


def test_a_block_may_move_data_in_another_method():
    move = HEAD.format(base="", stream="torch.cuda.Stream()") + textwrap.indent(
        """def run(self):
    self.s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(self.s):
        self.move(x)

def move(self, x):
    {work}
""",
        "    ",
    )
    assert found(move.format(work="x.data.copy_(x.kept, non_blocking=True)"))
    assert not found(move.format(work="x.data.copy_(x.kept)"))


def test_memory_that_was_just_allocated_needs_a_wait_of_its_own():
    lines = [
        "    def run(self, x):",
        "        y = torch.empty(n, device=self.device)",
        "        with torch.cuda.stream(self.s):",
        "            y.copy_(x, non_blocking=True)",
        f"        {JOIN}",
    ]
    source = HEAD.format(base="", stream="torch.cuda.Stream()") + "\n".join(lines)
    assert [(code, line) for code, line, _ in found(source)] == [("SYN104", 7)]
    assert [code for code, _, _ in found(source.replace("empty", "zeros"))] == ["SYN103"]


# -- relevant streams and classes


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ("torch.cuda.Stream()", True), ("Stream(device=0)", True), ("torch.cuda.Stream(0)", True), ("stream", False),
        ("get_stream()", False), ("torch.cuda.ExternalStream(h)", False),
    ],
)  # fmt: skip
def test_only_a_stream_created_by_the_class_is_reported(stream, expected):
    assert is_found(LOAD, stream=stream) is expected


def test_an_attribute_that_may_be_another_stream_is_not_reported():
    assert not is_found(LOAD, "self.s = given")
    assert not is_found(LOAD, "self.s: Stream = given")
    assert is_found(LOAD, "self.s: Stream = torch.cuda.Stream()")
    assert is_found(LOAD, "self.s: Stream")


@pytest.mark.parametrize(
    ("base", "expected"),
    [("", True), ("(nn.Module)", True), ("(torch.nn.Module, ABC)", True), ("(object)", True), ("(Base)", False)],
)
def test_a_class_with_an_unknown_base_is_not_reported(base, expected):
    assert is_found(LOAD, base=base) is expected
    assert is_found(COPY, JOIN, base=base)


@pytest.mark.parametrize(
    "block", ["with self.s:", "with torch.cuda.StreamContext(self.s):", "with a, stream(self.s) as b:"]
)
def test_a_stream_can_be_made_current_in_several_ways(block):
    assert found(klass(LOAD).replace("with torch.cuda.stream(self.s):", block)) != []


def test_an_async_with_block_is_not_analyzed():
    source = (
        klass(LOAD).replace("with torch.cuda.stream(self.s):", "async with self.s:").replace("def run", "async def run")
    )
    assert found(source) == []


def test_a_block_outside_of_the_class_does_not_count():
    source = klass("y = 1") + f"def f(a):\n    with torch.cuda.stream(a.s):\n        {LOAD}\n"
    assert found(source) == []


def test_each_block_and_each_stream_is_reported():
    source = klass(LOAD, "with torch.cuda.stream(self.s):", f"    {LOAD}", "self.t = torch.cuda.Stream()",
                   "with torch.cuda.stream(self.t):", f"    {LOAD}")  # fmt: skip
    assert [(line, "`self.t`" in message) for _, line, message in found(source)] == [(5, False), (8, False), (11, True)]


# -- known findings


def race(code, line, *others):
    first, *related = (Location(Frame("program.py", number)) for number in (line, *others))
    return Finding(find(code), first, "", related=tuple(related))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (race("SYN101", 6), False), (race("SYN201", 5), False), (race("SYN101", 2, 6), False),
        (race("SYN101", 2), True), (race("SYN801", 6), True), (race("SYN101", 7), True),
    ],
)  # fmt: skip
def test_a_known_race_in_the_block_takes_precedence(known, expected):
    assert bool(found(klass(LOAD), [known])) is expected


def test_the_place_names_the_method():
    file = SourceFile("program.py", klass(LOAD))
    (kind,) = (statement for statement in file.tree.body if isinstance(statement, ast.ClassDef))
    (made,) = findings(context_of(file, classes=[kind]))
    assert made.location.frame.function == "run"


# -- inputs of a block

SENT = """
class A({base}):
    def __init__(self):
        self.s = {stream}
    def forward(self, x, out):
        {before}
        with torch.cuda.stream(self.s{item}):
            {work}
        {after}
        return out
"""


def forward(work, before="pass", after="pass", base="nn.Module", stream="torch.cuda.Stream()", item=""):
    return found(SENT.format(work=work, before=before, after=after, base=base, stream=stream, item=item))


SEND = "work = dist.all_to_all_single(out, x, async_op=True)"


def test_a_collective_on_a_stream_that_never_waits_is_reported():
    ((_, line, message),) = forward(SEND, after="work.wait()")
    assert line == 7
    assert "never waits for the stream that computes what it sends here" in message


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("dist.all_reduce(x[0])", True),
        ("torch.distributed.broadcast(x, 0)", True),
        ("dist.barrier()", False),
        ("dist.all_reduce(self.x)", False),  # another block may have created it
        ("x = f(); dist.all_reduce(x)", False),
        ("comm.all_reduce(x)", False),  # of another library
    ],
)
def test_only_inputs_that_existed_before_the_block_count(work, expected):
    assert bool(forward(work)) is expected


@pytest.mark.parametrize("work", [SEND, "y = self.layer(x)"])
def test_a_host_wait_after_the_block_comes_too_late(work):
    assert forward(work, after="torch.cuda.synchronize()")
    assert not forward(work, before="torch.cuda.synchronize()")
    assert not forward("y = x.to(self.device)", after="torch.cuda.synchronize()")


def test_a_host_wait_in_another_method_counts_only_if_it_calls_this_one_afterwards():
    source = SENT.format(
        work=SEND, before="pass", after="pass", base="nn.Module", stream="torch.cuda.Stream()", item=""
    )
    assert found(source)
    other = "    def other(self):\n        torch.cuda.synchronize()\n"
    assert found(source + other)
    assert not found(source + other + "        self.forward(x, y)\n")


@pytest.mark.parametrize(
    ("work", "kwargs", "expected"),
    [
        ("y = self.layer(x)", {}, True),
        ("y = self.layers[0](x, 1)", {}, True),
        ("y = self.layer(self.x)", {}, False),
        ("x = torch.ones(3); y = self.layer(x)", {}, False),
        ("y = self.forward(x)", {}, False),  # it may wait
        ("y = f(x)", {}, False),
        ("y = self.layer(x)", {"base": "object"}, False),
        ("y = self.layer(x)", {"base": "nn.Module, Base"}, False),
        ("y = self.layer(x)", {"after": "torch.cuda.current_stream().wait_stream(other)"}, True),
        ("y = self.layer(x)", {"stream": "[torch.cuda.Stream() for _ in range(2)]", "item": "[0]"}, True),
        ("y = self.layer(x)", {"stream": "{k: torch.cuda.Stream() for k in keys}", "item": "[k]"}, True),
        ("y = self.layer(x)", {"stream": "[torch.cuda.Stream(), torch.cuda.Stream()]", "item": "[0]"}, True),
        ("y = self.layer(x)", {"stream": "[]", "item": "[0]"}, False),
    ],
)
def test_a_layer_that_uses_its_inputs_needs_a_wait(work, kwargs, expected):
    assert bool(forward(work, **kwargs)) is expected


@pytest.mark.parametrize(
    ("called", "expected"),
    [("concat_all_gather", True), ("my_all_reduce", True), ("gather", False), ("self.all_gather", True)],
)
def test_a_function_named_after_a_collective_sends(called, expected):
    assert is_found(f"y = {called}(x)", JOIN) is expected


def test_a_stream_that_reuses_the_memory_of_dropped_copies_shows_where_they_are_kept():
    source = klass("self.kept[k] = x.to(self.device, non_blocking=True)", JOIN, "self.kept.pop(k)")
    file = SourceFile("program.py", source)
    (finding,) = findings(context_of(file, classes=file.tree.body))
    assert [(other.frame.line, other.message) for other in finding.related] == [
        (6, "a copy is kept here until a method drops it")
    ]


def test_a_copy_that_a_generator_yields_is_reported_unless_it_is_recorded():
    source = HEAD.format(base="", stream="torch.cuda.Stream()") + textwrap.indent(
        textwrap.dedent(
            """
            def __iter__(self):
                for batch in self.loader:
                    with torch.cuda.stream(self.s):
                        x = batch.cuda(non_blocking=True)
                    torch.cuda.current_stream().wait_stream(self.s)
                    pass
                    yield x
            """
        ),
        "    ",
    )
    ((code, line, message),) = found(source)
    assert (code, line) == ("SYN201", 7)
    assert message == "`x` may be reused while the stream that uses it outside of the method is still reading it"
    assert not found(source.replace("pass", "x.record_stream(torch.cuda.current_stream())"))
    assert not found(source.replace("pass", "self.s.wait_stream(torch.cuda.current_stream())"))


@pytest.mark.parametrize(
    ("enter", "context", "expected"),
    [
        ("pass", "torch.cuda.stream(self.s) if self.s else nullcontext()", True),
        ("ctx = torch.cuda.stream(self.s)", "ctx", True),
        ("ctx = torch.cuda.stream(self.s) if self.s is not None else nullcontext()", "ctx", True),
        ("ctx = torch.cuda.stream(self.s); ctx = other()", "ctx", False),
        ("self.ctx = torch.cuda.stream(self.s)", "self.ctx", False),
        ("ctx = enter(torch.cuda.stream(self.s))", "ctx", False),
    ],
)
def test_a_context_may_have_a_name_or_an_alternative(enter, context, expected):
    source = klass(LOAD).replace("        with", f"        {enter}\n        with", 1)
    assert bool(found(source.replace("with torch.cuda.stream(self.s)", f"with {context}"))) is expected
