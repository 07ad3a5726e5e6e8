"""Which names may be None."""

import pytest

from syncheck.source.scopes import Scopes, scopes_of


def scopes_in(text: str) -> Scopes:
    scopes = scopes_of(text)
    assert scopes is not None
    return scopes


@pytest.mark.parametrize(
    ("text", "expression", "may_be_none"),
    [
        ("done = None", "done", True),
        ("done = start()", "done", False),
        ("a, done = start(), None", "done", True),
        ("done = start() if ready else None", "done", True),
        ("last = None\ndone = last", "done", True),
        ("self.done: Event | None = None", "slot.done", True),
        ("self.other = None", "slot.done", False),
        ("events = [None] * 2", "events[0]", True),
        ("self.events = {key: None for key in keys}", "self.events[key]", True),
        ("events = None", "events[0]", False),
        ("events = [make(), make()]", "events[0]", False),
        ("done = None", "done.event()", False),
        ("ticket = start()", "ticket._event", True),
        ("ticket = start()", "ticket.event", False),
        ("model = start()", "model._copy_stream", False),
        ("ticket = start()", "self._event", False),
        ("self._event = record()", "ticket._event", False),
    ],
)
def test_assignments_in_a_file_decide(text, expression, may_be_none):
    assert scopes_in(f"{text}\nuse()\n").may_be_none(expression, text.count("\n") + 2) is may_be_none


@pytest.mark.parametrize(
    ("parameters", "body", "may_be_none"),
    [
        ("x, done=None", "pass", True),
        ("x, *, done=None", "pass", True),
        ("done, x=None", "pass", False),
        ("done=None", "done = start()", False),
    ],
)
def test_the_default_of_a_parameter_counts_unless_it_is_replaced(parameters, body, may_be_none):
    assert scopes_in(f"def use({parameters}):\n    {body}\n    x()\n").may_be_none("done", 3) is may_be_none


def test_a_name_that_a_condition_tests_is_not_none_there():
    scopes = scopes_in("done = None\nif done is not None:\n    use(done)\nuse(done)\n")
    assert not scopes.may_be_none("done", 3)
    assert scopes.may_be_none("done", 4)


@pytest.mark.parametrize(
    ("text", "line", "may_be_none"),
    [
        ("slot.done = start()\nuse()\nslot.done = None", 2, False),
        ("slot.done = start()\nuse()\nslot.done = None", 4, True),
        ("if ready:\n    slot.done = start()\nuse()\nslot.done = None", 3, True),
        ("if ready:\n    slot.done = start()\n    use()\nslot.done = None", 3, False),
        ("for x in xs:\n    use()\n    slot.done = start()\nslot.done = None", 2, True),
    ],
)
def test_an_earlier_assignment_in_the_block_counts(text, line, may_be_none):
    assert scopes_in(f"{text}\nend()\n").may_be_none("slot.done", line) is may_be_none


@pytest.mark.parametrize(
    "before",
    [
        "match kind:\n    case 1:\n        done = start()\n",
        "match kind:\n    case 2:\n        pass\n    case _:\n        done = start()\n",
        "try:\n    run()\nexcept ValueError:\n    done = start()\n",
    ],
)
def test_statements_inside_cases_and_handlers_count(before):
    text = f"done = None\n{before}        use()\n" if "match" in before else f"done = None\n{before}    use()\n"
    assert not scopes_in(text).may_be_none("done", text.count("\n"))
