"""Buffers that blocks on a side stream fill again and again."""

import ast

import pytest

from syncheck.lint.patterns.reused_buffers import reused_buffer

SOURCE = """
class Experts:
    def __init__(self, n):
        self.side = torch.cuda.Stream()
        self.buffer = torch.zeros(n, 16, device="cuda")
        self.n_used = 0

    def {method}(self, layer, expert):
        {before}
        {slot}
        with torch.cuda.stream(self.side):
            {write}
            self.done.record()
        torch.cuda.current_stream().wait_event(self.done)
        {after}

    def place(self, layer, expert):
        {place}
        {inner}

    def use(self, layer):
        {caller}
        self.{method}(layer, 0)

    def other(self):
        {other}
"""
COPY = "self.buffer[slot].copy_(self.hosts[layer][expert], non_blocking=True)"
SLOT = "slot = self.cache.allocate(expert)"
PARTS = {
    "method": "fetch",
    "before": "pass",
    "slot": "slot = self.slots.pop(expert)",
    "write": COPY,
    "after": "pass",
    "place": "pass",
    "inner": "pass",
    "caller": "pass",
    "other": "pass",
}


def found(**given):
    """Return the name of the buffer, and the line of the copy."""
    tree = ast.parse(SOURCE.format(**PARTS | given))
    kind = tree.body[0]
    block = next(node for node in ast.walk(kind) if isinstance(node, ast.With))
    result = reused_buffer(kind, block, "side")
    return (result.name, result.write.lineno) if result is not None else None


def test_a_slot_that_was_in_use_is_filled_while_another_stream_may_read_it():
    assert found() == ("buffer", 12)


@pytest.mark.parametrize(
    "given",
    [
        {"slot": "slot = self.n_used % 2"},
        {"slot": "slot = self.first + self.n_used; self.n_used += 1"},
        {"slot": "slot = self.free_slots.popleft()"},
        {"slot": "evicted = self.choose()", "write": COPY.replace("slot", "evicted.index")},
        {"write": COPY.replace("[slot]", "")},
        {"write": "self.buffer.data.copy_(expert, non_blocking=True)"},
        {"slot": f"{SLOT}; page = self.buffer[slot]", "write": COPY.replace("self.buffer[slot]", "page")},
        {"slot": f"{SLOT}; page = self.buffer.at(slot)", "write": COPY.replace("self.buffer[slot]", "page")},
    ],
)  # fmt: skip
def test_slots_are_recognized(given):
    assert found(**given) == ("buffer", 12)


def test_a_method_that_the_block_calls_may_fill_it():
    inside = {"place": "slot = self.slots.pop(expert)", "inner": COPY}
    assert found(write="self.place(layer, expert)", **inside) == ("buffer", 19)


@pytest.mark.parametrize(
    "given",
    [
        {"slot": "slot = self.slots[expert]"},
        {"write": COPY.replace("slot", "layer")},
        {"write": COPY.replace("non_blocking=True", "non_blocking=False")},
        {"write": COPY.replace(", non_blocking=True", "")},
        {"write": COPY.replace("self.hosts[layer][expert]", "self.host")},
        {"write": COPY.replace("self.buffer", "buffer")},
        {"write": COPY.replace("self.buffer[slot]", "made()")},
        {"write": "self.buffer[slot].zero_()"},
        {"method": "load_weights"},
        {"before": "torch.cuda.synchronize()"},
        {"before": "expert = expert.item()"},
        {"after": "torch.cuda.current_stream().synchronize()"},
        {"after": "total = self.buffer.sum().item()"},
        {"caller": "self.chosen = self.router(layer).tolist()"},
        {"other": "self.buffer = torch.zeros(4)"},
    ],
)
def test_a_buffer_may_be_safe(given):
    assert found(**given) is None
