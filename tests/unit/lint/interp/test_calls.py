"""Calls that are followed, modeled or unknown."""

import pytest

from tests.unit.lint.program import calls_of, constant, follow, reported

X = "x = torch.ones(4, device='cuda')\n"
S = "s = torch.cuda.Stream()\n"
E = "e = torch.cuda.Event()\n"


# -- functions of the program


def test_functions_are_followed_and_recorded():
    program = follow(X + "def f(t):\n    def g(): t.sin_()\n    g()\nf(x)")
    assert program.calls[-1] == "launch cuda:0 sin_ w1"
    assert {node.name for node in program.interpreter.calls.followed} == {"f", "g"}


def test_local_tensors_die_at_the_end_of_their_function():
    assert calls_of("def f():\n    y = torch.empty(4, device='cuda')\nf()") == ["allocate 1 on cuda:0", "free 1"]


def test_recursion_and_call_depth_are_bounded():
    assert calls_of("def f(n):\n    x.sin_()\n    f(n)\nf(1)", X).count("launch cuda:0 sin_ w1") == 2
    walk = "def walk(n):\n    x.sin_()\n    for part in walk(n):\n        yield part\nfor part in walk(tree): pass"
    assert calls_of(walk, X).count("launch cuda:0 sin_ w1") == 2
    deep = "".join(f"def f{n}(): f{n + 1}()\n" for n in range(30)) + "def f30(): x.sin_()\nf0()"
    assert "launch cuda:0 sin_ w1" not in calls_of(deep, X)


@pytest.mark.parametrize("call", ["f(n)", "f(x)"])
def test_a_recursive_call_that_is_not_followed_waits_for_nothing(call):
    assert "all complete" not in calls_of(f"def f(n):\n    x.sin_()\n    {call}\nf(1)", X)


def test_a_returned_generator_keeps_the_variables_of_its_function():
    source = "def f(t):\n    def g():\n        t.sin_()\n        yield\n    return g()\nfor _ in f(x): pass"
    assert calls_of(source, X) == ["launch cuda:0 sin_ w1"]


def test_places_record_the_running_function():
    program = follow("def outer():\n    inner()\ndef inner():\n    x = torch.ones(4, device='cuda')\nouter()")
    assert program.machine.function == ""
    assert program.machine.calls == []
    assert {program.sites.location(site).frame.function for site in (1, 2)} == {"inner"}


def test_a_default_is_evaluated_at_its_definition():
    assert constant("f()", "n = 1\ndef f(a=n): return a\nn = 2") == 1


# -- classes


def test_objects_are_initialized_by_their_class_or_its_base():
    source = "class B:\n    def __init__(self, a): self.a = a\n"
    source += "class C(B):\n    def __init__(self):\n        super().__init__(3)\n"
    assert constant("C().a", source) == 3


def test_fields_of_a_dataclass_are_its_arguments():
    source = "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int\n    b: int = 2\n"
    assert constant("[A(1).a, A(1, 5).b, A(1, b=6).b]", source) == [1, 5, 6]


def test_objects_and_modules_can_be_called():
    assert constant("A()(2)", "class A:\n    def __call__(self, n): return n + 1") == 3
    net = "class N(torch.nn.Module):\n    def forward(self, t): return t.sin_()\nn = N()\n"
    assert calls_of("n(x)", X + net) == ["launch cuda:0 sin_ w1"]


def test_a_layer_reads_its_input_and_its_parameters():
    before = X + "l = torch.nn.Linear(4, 4, device='cuda')\n"
    assert calls_of("y = l(x)", before) == ["allocate 3 on cuda:0", "launch cuda:0 addmm r1 r2 w3"]


def test_partials_are_called_with_all_their_arguments():
    source = "from functools import partial\ndef f(a, b, c=0): return [a, b, c]\ng = partial(f, 1, c=3)\n"
    assert constant("g(2)", source) == [1, 2, 3]


# -- decorators


@pytest.mark.parametrize(
    "decorator",
    ["torch.compile", "torch.jit.script", "wraps(g)", "pytest.fixture", "abstractmethod", "nvtx.annotate('a')"],
)
def test_decorators_without_an_effect_are_ignored(decorator):
    assert constant("f()", f"@{decorator}\ndef f(): return 3") == 3


def test_decorators_of_the_program_are_followed():
    source = "found = []\ndef register(f):\n    found.append(f)\n    return f\n@register\ndef f(): return 1\n"
    assert constant("[f(), len(found)]", source) == [1, 1]


def test_an_unknown_decorator_makes_the_function_unknown():
    assert constant("f()", "@unknown\ndef f(): return 3") == "unknown"


def test_a_context_manager_used_as_a_decorator_wraps_each_call():
    source = S + X + "@torch.cuda.stream(s)\ndef f(): x.sin_()\n"
    assert calls_of("f()\nx.cos_()", source) == ["launch s1 sin_ w1", "launch cuda:0 cos_ w1"]


# -- unknown code


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("f(1)", False), ("f(x)", True), ("f([x])", True), ("f(s)", True), ("f(e)", True), ("f(a=s)", True),
        ("obj.synchronize_all()", True), ("barrier()", True), ("obj.wait()", True), ("obj.step()", False),
        ("f()()", True),
    ],
)  # fmt: skip
def test_unknown_code_may_have_waited_if_it_received_work_or_its_name_suggests_it(call, waits):
    assert ("all complete" in calls_of(call, X + S + E)) is waits


@pytest.mark.parametrize("wait", ["manager.stream.wait_event(e)", "manager.stream.wait_stream(other)"])
def test_a_wait_of_an_unknown_stream_orders_streams_but_not_the_host(wait):
    made = calls_of(wait, S + X + "x.sin_()\n")
    assert "all complete" not in made
    assert any("wait" in each for each in made)


def test_memory_passed_to_unknown_code_is_no_longer_tracked():
    assert calls_of("f(x)\nx.sin_()", X) == [
        "launch cuda:0 unknown code r1", "all complete", "launch cuda:0 unknown code", "launch cuda:0 sin_",
    ]  # fmt: skip


def test_an_event_passed_to_unknown_code_may_be_recorded_anywhere():
    assert calls_of("f(e)\ne.synchronize()", E) == ["all complete", "all complete"]


def test_contents_of_objects_and_partials_escape_with_them():
    before = X + "class A: pass\na = A()\na.x = x\n"
    assert calls_of("f(a)\nx.sin_()", before)[-1] == "launch cuda:0 sin_"


# -- threads


def test_a_thread_starts_with_default_streams_and_does_not_change_the_starters():
    before = S + X + "import threading\ndef work(): x.sin_()\n"
    source = "with torch.cuda.stream(s):\n    threading.Thread(target=work).start()\n    x.cos_()"
    assert calls_of(source, before) == [
        "lost s1 for cuda:0", "launch cuda:0 sin_ w1 in a context of s1", "launch s1 cos_ w1",
    ]  # fmt: skip


@pytest.mark.parametrize("loop", ["for t in x.values()", "for k, t in x.items()"])
def test_a_tensor_may_stand_for_a_dictionary_of_tensors(loop):
    assert calls_of(f"{loop}: t.sin_()", X) == ["launch cuda:0 sin_ w1"]


@pytest.mark.parametrize(
    ("made", "call", "is_likely"),
    [
        ("Table(rows=3)", "lookup(x)", True),
        ("make_table()", "lookup(x)", False),
        ("LossLogger()", "lookup(x)", False),
        ("Table(rows=3)", "tool(x)", False),
    ],
)
def test_an_object_of_an_unknown_class_computes_if_it_is_called_with_a_tensor(made, call, is_likely):
    program = follow(X + f"lookup = {made}\n{call}")
    assert list(program.machine.guesses.values()) == [is_likely]


@pytest.mark.parametrize(("body", "is_read"), [("...", True), ("return 3", False)])
def test_a_method_of_a_protocol_may_read_its_arguments(body, is_read):
    source = (
        f"import torch\nclass Sink:\n    def put(self, rows): {body}\n"
        "def f(sink: Sink):\n"
        "    host = torch.empty(4, pin_memory=True)\n"
        "    host.copy_(torch.ones(4, device='cuda'), non_blocking=True)\n"
        "    sink.put(host.numpy())\n"
    )
    assert reported(source, (), "the host reads") == [("SYN301", 7)] * is_read


@pytest.mark.parametrize("container", ["(torch.ones(2) for _ in range(2))", "[torch.ones(2), torch.ones(2)]"])
def test_starred_arguments_are_the_items_of_what_is_unpacked(container):
    assert constant("f(*made)", f"import torch\nmade = {container}\ndef f(*values): return len(values)") == 2


@pytest.mark.parametrize(("device", "is_likely"), [("cuda", True), ("cpu", False)])
def test_a_tensor_that_is_called_is_a_layer_on_its_device(device, is_likely):
    program = follow(f"import torch\nmodel = torch.ones(4, device={device!r})\nmodel(rows)")
    assert list(program.machine.guesses.values()) == [True] * is_likely


@pytest.mark.parametrize(
    ("call", "is_likely"), [("model(rows)", True), ("model(prompt)", False), ("tool(rows)", False)]
)
def test_a_network_that_was_moved_computes_on_a_gpu_unless_it_gets_a_text(call, is_likely):
    name = call.partition("(")[0]
    program = follow(f"{name} = load().to('cuda')\n{call}")
    assert list(program.machine.guesses.values()) == [True] * is_likely
