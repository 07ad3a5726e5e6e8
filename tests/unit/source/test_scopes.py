"""Names visible at a line."""

import textwrap

import pytest

from syncheck.source.scopes import scopes_of

PROGRAM = textwrap.dedent('''\
    import torch as th
    from torch.cuda import Stream

    copy = Stream()


    class Loader:
        size = 4

        def __init__(self, data):
            self.stream = Stream()
            self.data = data

        def fetch(self):
            for item in self.data:
                batch = item
                self.use(batch)
            return batch

        @staticmethod
        def free(self):
            return self


    class Other:
        def run(self):
            inner = 1

            def nested():
                return inner + size

            return nested


    def main(streams):
        global copy
        late()
        buffers = [None for number in range(3)]
        for index in range(2):
            late = streams[0]
            if (early := index):
                break
        with open("x") as file:
            copy = file
        return th.zeros(3)
    ''')  # fmt: skip


def line_of(text):
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


@pytest.fixture
def scopes():
    return scopes_of(PROGRAM)


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        ("copy", "self.use(batch)"),
        ("self.stream", "self.use(batch)"),
        ("item", "batch = item"),
        ("batch", "return batch"),
        ("th.cuda", "return batch"),
        ("inner", "return inner"),
        ("buffers", "for index in"),
        ("late", "if (early"),
        ("early", "with open"),
        ("file", "return th.zeros"),
        ("streams[0]", "late()"),
        ("print(copy)", "return batch"),
    ],
)
def test_a_name_bound_earlier_is_visible(scopes, expression, at):
    assert scopes.is_visible(expression, line_of(at))


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        ("self.stream", "return th.zeros"),
        ("size", "return inner"),  # functions do not see the names of a class
        ("inner", "return th.zeros"),
        ("early", "buffers = [None"),  # bound later
        ("batch", "batch = item"),  # bound only in the previous iteration
        ("batch", "for item in self.data"),
        ("number", "for index in"),  # of a comprehension
        ("file", "with open"),
        ("batch", "late()"),
        ("not an expression", "late()"),
        ("nothing", "late()"),
    ],
)
def test_a_name_bound_elsewhere_or_later_is_not_visible(scopes, expression, at):
    assert not scopes.is_visible(expression, line_of(at))


@pytest.mark.parametrize(
    ("expression", "at", "other", "same"),
    [
        ("self.stream", "self.stream =", "self.use(batch)", True),
        ("self.stream", "self.stream =", "return nested", False),
        ("self.stream", "self.stream =", "return self", False),
        ("copy", "copy = Stream()", "self.use(batch)", True),
        ("copy", "copy = Stream()", "return th.zeros", True),
        ("batch", "batch = item", "self.use(batch)", True),
        ("batch", "batch = item", "return th.zeros", False),
        ("inner", "inner = 1", "return inner", True),
        ("buffers[1]", "buffers =", "for index in", False),
        ("buffers[1]", "buffers =", "late = ", False),
        ("buffers['left']", "buffers =", "late = ", True),
    ],
)
def test_an_expression_means_the_same_where_its_names_are_the_same_variables(scopes, expression, at, other, same):
    assert scopes.has_same_meaning(expression, line_of(at), line_of(other)) is same


def test_an_import_is_found_by_its_local_name(scopes):
    assert scopes.name_of_import("torch", line_of("return batch")) == "th"
    assert scopes.name_of_import("numpy", line_of("return batch")) == ""


def test_a_line_belongs_to_its_innermost_statement(scopes):
    assert scopes.statement(line_of("self.use(batch)")).lineno == line_of("self.use(batch)")
    assert scopes.statement(3) is None
    assert scopes.is_in_loop(line_of("self.use(batch)"))
    assert not scopes.is_in_loop(line_of("return batch"))


def test_invalid_python_has_no_scopes():
    assert scopes_of("def (") is None
    assert scopes_of("x = " + "(" * 5000) is None


def scopes_in(text):
    scopes = scopes_of(textwrap.dedent(text))
    assert scopes is not None
    return scopes


LOOPS = """\
for stream in streams:
    start(stream)
join(first)
use(stream)
def later(index):
    for other in streams:
        other.wait()
        work(streams[index], self.x)
"""


def test_a_loop_variable_is_not_visible_after_its_loop():
    scopes = scopes_in(LOOPS)
    assert [line for line in range(1, 9) if scopes.is_visible("stream", line)] == [2, 4]  # its use shows its meaning
    assert scopes_in("s = f()\nfor s in t: pass\ng()\n").is_visible("s", 3)


def test_a_function_does_not_see_what_a_loop_outside_rebinds_unless_it_uses_it():
    text = "once = last = None\nonce = f()\ndef g(x):\n    {}\n    return x\nfor x in xs:\n    last = g(x)\n"
    assert not scopes_in(text.format("pass")).is_visible("last.event", 5)
    assert scopes_in(text.format("print(last)")).is_visible("last.event", 5)
    assert scopes_in(text.format("pass")).is_visible("once.event", 5)
    assert scopes_in(text.format("pass")).is_visible("last.event", 7)


def test_a_variable_that_is_bound_again_in_between_means_something_else():
    text = "side = f()\nuse(side)\n{}\nuse(side.x)\n"
    assert scopes_in(text.format("other = f()")).has_same_meaning("side", 1, 4)
    assert not scopes_in(text.format("side = f()")).has_same_meaning("side", 1, 4)
    assert scopes_in("if a:\n    side = f()\nelse:\n    side = g()\nuse(side)\n").has_same_meaning("side", 2, 5)


def test_a_loop_rebinds_its_variable_on_each_iteration():
    scopes = scopes_in(LOOPS)
    assert scopes.is_rebound("stream.x", 2)
    assert not scopes.is_rebound("streams", 2)
    assert not scopes.is_rebound("index", 7)


def test_a_variable_is_not_visible_before_the_first_iteration_binds_it():
    scopes = scopes_in("top = 1\ndef f(x):\n    for y in x:\n        g(top)\n        z = y\n    h(z)\n")
    assert not scopes.is_visible("z", 4)
    assert scopes.is_visible("z", 6)
    assert scopes.is_visible("x + top", 4)


def test_local_variables_belong_to_one_call():
    scopes = scopes_in(LOOPS)
    assert scopes.uses_local_variable("streams[index]", 8)
    assert not scopes.uses_local_variable("streams", 8)
    assert not scopes.uses_local_variable("stream", 2)
    assert not scopes_in("class A:\n    def f(self):\n        g()\n").uses_local_variable("self.stream", 3)


def test_items_that_a_loop_selects_by_constant_index_stay_the_same():
    text = "stages = make()\nfor x in xs:\n    y = stages[0](x)\n    send(y)\n    z = {}(y)\n"
    assert scopes_in(text.format("stages[1]")).is_always_valid("stages[0].stream", 4)
    assert not scopes_in(text.format("stages[1]")).is_always_valid("stages[2].stream", 4)
    assert not scopes_in(text.format("stages[x]")).is_always_valid("stages[0].stream", 4)


@pytest.mark.parametrize(
    ("text", "is_always_valid"),
    [
        ("", True),
        ("streams['b'] = make()", True),
        ("for key in keys: streams[key] = make()", True),
        ("class A:\n    def __init__(self): self.streams[key] = make()", True),
        ("def fill(key): streams[key] = make()", False),
        ("streams.pop(key)", False),
        ("del self.streams[key]", False),
        ("del streams[key]\nuse(streams['a'])", True),
    ],
)
def test_an_item_is_right_only_where_its_container_keeps_it(text, is_always_valid):
    source = f"streams = make()\nfor x in xs:\n    use(x)\n{text}\n"
    assert scopes_in(source).is_always_valid("streams['a']", 3) is is_always_valid


def test_a_loop_that_fills_a_container_does_not_have_its_items_from_the_beginning():
    assert not scopes_in("streams = {}\nfor x in xs:\n    use(x)\n    streams[x] = make()\n").is_always_valid(
        "streams['a']", 3
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("self.works = {}", "dict"), ("self.works: dict = defaultdict(list)", "dict"),
        ("self.works = [None] * n", "list"),
        ("self.works = deque()", "list"), ("self.works = make()", ""), ("works = []", ""), ("self.works.x()", ""),
    ],
)  # fmt: skip
def test_the_kind_of_a_container_comes_from_its_first_binding(text, kind):
    assert scopes_in(text).kind_of_container("self.works") == kind


def test_a_call_is_the_whole_assigned_value_or_a_part():
    text = "x = load(a)\ny = load(a) + 1\n"
    assert scopes_in(text).is_whole_value((1, 5), (1, 12))
    assert not scopes_in(text).is_whole_value((2, 5), (2, 12))
    assert not scopes_in("load(a)\n\n").is_whole_value((2, 1), (2, 8))


def test_arguments_of_a_call_are_identified():
    text = "queue.put(x.cuda(), flag=f())\n"
    assert [scopes_in(text).is_argument(1, column) for column in (1, 11, 26)] == [False, True, True]


def test_attributes_of_a_thread_local_are_different_ones_in_another_function():
    scopes = scopes_of(
        "state = threading.local()\ndef work():\n    state.s = 1\n    state.s.t()\ndef other():\n    pass\n"
    )
    assert scopes.has_same_meaning("state.s", 3, 4)
    assert not scopes.has_same_meaning("state.s", 3, 6)
    assert scopes.has_same_meaning("state", 3, 6)


NESTED = """
a[0]
def f(x=a[1]):
    for i in a[2]:
        if a[3]:
            a[4] = [a[5] for _ in a]
    def g():
        return a[6]
a[7]
"""


@pytest.mark.parametrize(("text", "numbers"), [("a[0]", [0, 1, 7]), ("a[4]", [2, 3, 4, 5]), ("a[6]", [6])])
def test_the_subscripts_of_a_function_exclude_those_of_other_scopes(text, numbers):
    line = next(number for number, source in enumerate(NESTED.splitlines(), 1) if text in source)
    subscripts = scopes_of(NESTED).subscripts_around(line)
    assert sorted(node.slice.value for node in subscripts) == numbers
