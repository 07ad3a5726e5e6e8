"""Work that was complete before the interpreted function began."""

from contextlib import suppress
from types import SimpleNamespace

from syncheck.lint.interp.earlier_work import EarlierWork
from syncheck.semantics.threads import ThreadState


class Machine:
    def __init__(self):
        self.thread = ThreadState(device=1, streams={0: 7})
        self.synchronized = []
        self.session = SimpleNamespace(sync_stream=lambda stream, site, explicit: self.synchronized.append(stream))
        self.devices = {1: 0, 2: 1, 7: 0}

    def device_of(self, stream):
        return self.devices[stream]

    def default_stream(self, device):
        return device + 1

    def add_stream(self, device):
        self.devices[stream := len(self.devices) + 10] = device
        return stream


def test_other_work_runs_on_its_own_stream():
    machine, earlier = Machine(), EarlierWork()
    assert earlier.placed(1, machine) == 1
    assert machine.synchronized == []


def test_earlier_work_runs_on_another_stream_in_a_new_thread_and_is_complete_afterwards():
    machine, earlier = Machine(), EarlierWork()
    thread = machine.thread
    with earlier.run(machine):
        assert (machine.thread.device, machine.thread.streams) == (0, {})
        placed = earlier.placed(1, machine)
        assert placed not in {1, 2, 7}
        assert earlier.placed(1, machine) == placed
        assert earlier.placed(7, machine) == 7  # a side stream
        assert machine.synchronized == []
    assert machine.synchronized == [placed]
    assert machine.thread is thread
    assert earlier.placed(1, machine) == 1


def test_earlier_work_is_complete_even_if_it_is_not_interpreted_to_its_end():
    machine, earlier = Machine(), EarlierWork()
    with suppress(KeyError), earlier.run(machine):
        placed = earlier.placed(1, machine)
        raise KeyError
    assert machine.synchronized == [placed]


def test_earlier_work_may_need_earlier_work():
    machine, earlier = Machine(), EarlierWork()
    with earlier.run(machine):
        outer = earlier.placed(1, machine)
        with earlier.run(machine):
            inner = earlier.placed(2, machine)
        assert machine.synchronized == [inner]
        assert earlier.placed(1, machine) == outer
    assert machine.synchronized == [inner, outer]
