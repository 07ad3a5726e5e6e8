"""Speed and memory of the happens-before engine: launches per second by number of streams, growth over a long run."""

import resource
import sys
import time

from syncheck.hb.engine import Engine
from syncheck.hb.footprint import dense

TENSORS = 256


def build(streams: int) -> tuple[Engine, list[int], list[list[tuple[int, int, bool]]]]:
    """Return an engine with tensors for each stream, its streams, and the accesses of the launches to repeat."""
    engine = Engine()
    ids = [engine.add_stream(0, is_legacy=index == 0) for index in range(streams)]
    whole = engine.add_view(dense(0, 4096))
    half = engine.add_view(dense(0, 2048))
    for index in range(TENSORS):
        engine.allocate(index, ids[index % streams], 4096, 0, 0)
    rounds = []
    for step in range(TENSORS):
        mine = [t for t in range(TENSORS) if t % streams == step % streams]
        first, second, third = (mine[(step + k) % len(mine)] for k in range(3))
        rounds.append([(first, whole, False), (second, half if step % 8 == 0 else whole, False), (third, whole, True)])
    return engine, ids, rounds


def measure(streams: int, launches: int, *, exchange: int = 32) -> float:
    """Return launches per second with three accesses each. Every `exchange` launches, two streams are joined."""
    engine, ids, rounds = build(streams)
    launch, record, wait = engine.launch, engine.record, engine.wait
    start = time.perf_counter()
    for step in range(launches):
        stream = ids[step % streams]
        launch(stream, rounds[step % TENSORS], step & 1023)
        if step % exchange == 0:
            record(step % 16, stream)
            wait(step % 16, ids[(step + 1) % streams])
    return launches / (time.perf_counter() - start)


def measure_windows(windows: int) -> float:
    """Return launches per second that write windows of 4,096 bytes, each 4 bytes further, on a second stream."""
    engine = Engine()
    home, user = engine.add_stream(0), engine.add_stream(0)
    engine.allocate(1, home, 4 * windows + 4096, 0, 0)
    engine.launch(home, [(1, engine.add_view(dense(0, 4 * windows + 4096)), True)], 0)
    engine.record(1, home)
    engine.wait(1, user)
    views = [engine.add_view(dense(4 * number, 4 * number + 4096)) for number in range(windows)]
    start = time.perf_counter()
    for view in views:
        engine.launch(user, [(1, view, True)], 1)
    return windows / (time.perf_counter() - start)


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    for streams in (2, 4, 8, 16, 32, 64):
        print(f"{streams:3} streams: {max(measure(streams, 200_000) for _ in range(3)):>10,.0f} launches per second")
    for windows in (1_000, 2_000, 4_000, 8_000):
        print(f"{windows:,} overlapping windows: {measure_windows(windows):>10,.0f} launches per second")
    before = peak_kib()
    rate = measure(4, launches)
    print(
        f"{launches:,} launches on {TENSORS} tensors: {rate:,.0f} per second, memory grew by {peak_kib() - before} KiB"
    )


if __name__ == "__main__":
    main()
