"""Monitor calls order the queues."""

from syncheck.hb.ids import WaitCall
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.sim.stream_order import StreamOrder
from syncheck.sim.virtual_gpus import VirtualGpus
from syncheck.witness.schedule import Hold, Holds, LaunchId


def ordered(*holds):
    gpus = VirtualGpus(2, NullMonitor(), NoSites())
    policy = Holds(tuple(Hold(LaunchId(*launch)) for launch in holds))
    return gpus, StreamOrder(gpus, policy, {}), []


def launch(gpus, order, stream, done, name):
    order.queues.put(stream, lambda: done.append(name))
    gpus.monitor.launch(stream, "aten::add", (), 0)


def test_an_event_orders_work_after_its_wait():
    gpus, order, done = ordered((1, 1))
    launch(gpus, order, 1, done, "a")
    gpus.monitor.record(5, 1, 0)
    launch(gpus, order, 1, done, "later")
    gpus.monitor.wait(5, 2, 0, WaitCall.STREAM_WAIT_EVENT)
    launch(gpus, order, 2, done, "b")
    gpus.monitor.sync_stream(2, 0, explicit=True)
    assert done == ["a", "b"]


def test_replays_of_a_graph_run_one_after_another():
    gpus, order, done = ordered((1, 1))
    for stream in (1, 2):
        order.wait_for_replay(7, stream)
        order.queues.put(stream, lambda stream=stream: done.append(stream))
        gpus.monitor.replay(7, stream, 0)
    assert done == []
    order.finish(2)
    assert done == [1, 2]


def test_an_event_that_was_never_recorded_orders_nothing():
    gpus, order, done = ordered((1, 1))
    launch(gpus, order, 1, done, "a")
    gpus.monitor.wait(5, 2, 0, WaitCall.STREAM_WAIT_EVENT)
    gpus.monitor.sync_event(5, 0)
    launch(gpus, order, 2, done, "b")
    assert done == ["b"]


def test_a_device_synchronization_waits_only_for_its_own_streams():
    gpus, order, done = ordered((1, 1), (2, 1))
    launch(gpus, order, 1, done, "device 0")
    launch(gpus, order, 2, done, "device 1")
    gpus.monitor.sync_device(1, 0)
    assert done == ["device 1"]


def test_a_blocking_stream_waits_for_the_default_stream():
    gpus, order, done = ordered((1, 1))
    blocking = gpus.external_stream(0, 77, 0)
    launch(gpus, order, 1, done, "a")
    order.wait_implicitly(blocking)
    launch(gpus, order, blocking, done, "b")
    assert done == []
    order.finish(blocking)
    assert done == ["a", "b"]


def test_a_wait_of_the_default_stream_waits_for_blocking_streams():
    gpus, order, done = ordered((3, 1))
    one, other = gpus.external_stream(0, 77, 0), gpus.external_stream(0, 78, 0)
    launch(gpus, order, one, done, "a")
    gpus.monitor.wait_stream(1, 2, 0)
    order.wait_implicitly(other)
    launch(gpus, order, other, done, "b")
    assert done == []


def beside(order, stream, done):
    """Put a launch of a stream into a separate queue; return its marker."""
    order.queues.put(-1, lambda: done.append("beside"), is_ready=lambda: False)
    order.add_separate_queue(stream, order.queues.mark(-1))
    return order.queues.mark(-1)


def test_a_device_synchronization_waits_for_work_beside_its_streams():
    gpus, order, done = ordered()
    beside(order, 1, done)
    is_pending = order.is_pending(1)
    assert is_pending()
    gpus.monitor.sync_device(1, 0)
    assert done == []
    gpus.monitor.sync_device(0, 0)
    assert (done, is_pending()) == (["beside"], False)


def test_an_event_can_cover_work_beside_a_stream():
    gpus, order, done = ordered()
    marker = beside(order, 1, done)
    gpus.monitor.record(5, 1, 0)
    gpus.monitor.sync_event(5, 0)
    assert done == []
    order.set_marker(5, marker)
    gpus.monitor.sync_event(5, 0)
    assert done == ["beside"]
