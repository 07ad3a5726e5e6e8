"""Views: equal bytes share a footprint, and each view has a shape and type."""

from syncheck.hb.cells import AccessRecord
from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import dense, strided
from syncheck.sanitizer.messages import View
from syncheck.sanitizer.views import Views, without_covered_reads

FLOATS, BYTES = View((4,), 4, "float32"), View((16,), 1, "uint8")


def access(epoch, footprint, *, is_write):
    return AccessRecord(epoch % 8, epoch, 1, footprint, is_write)


def test_a_view_has_one_id_and_another_shape_of_its_bytes_has_another():
    described = []
    views = Views(Engine(), described)
    floats = views.intern(dense(0, 16), FLOATS)
    as_bytes = views.intern(dense(0, 16), BYTES)
    assert views.intern(dense(0, 16), FLOATS) == floats != as_bytes
    assert described == [FLOATS, BYTES]
    assert views.of(dense(0, 16)) == floats


def test_equal_bytes_share_their_history():
    engine = Engine()
    views = Views(engine, [])
    writer, reader = engine.add_stream(0), engine.add_stream(0)
    floats = views.intern(strided(0, (4,), (1,), 4), FLOATS)
    as_bytes = views.intern(strided(0, (16,), (1,), 1), BYTES)
    engine.allocate(7, writer, 16, 0, 0)
    engine.launch(writer, [(7, floats, True)], 1)
    (race,) = engine.launch(reader, [(7, as_bytes, False)], 2)
    assert views.used(race, [(7, as_bytes, False)]) == as_bytes


def test_the_view_of_a_race_matches_its_bytes_and_allocation():
    views = Views(Engine(), [])
    whole, half = views.intern(dense(0, 16), FLOATS), views.intern(dense(0, 8), FLOATS)
    other = views.intern(dense(0, 8), BYTES)
    race = Race(7, access(9, dense(0, 16), is_write=True), access(10, dense(0, 8), is_write=False))
    assert views.used(race, [(7, whole, False), (8, half, False), (7, other, False)]) == other
    assert views.used(race, ()) == half


def test_a_write_subsumes_a_read_of_the_same_bytes():
    prior = access(9, dense(0, 16), is_write=True)
    read = Race(7, prior, access(10, dense(0, 16), is_write=False))
    write = Race(7, prior, access(10, dense(0, 16), is_write=True))
    elsewhere = Race(7, prior, access(10, dense(0, 8), is_write=False))
    earlier = Race(7, access(17, dense(0, 16), is_write=True), access(10, dense(0, 16), is_write=False))
    assert without_covered_reads([read, write, elsewhere, earlier]) == [write, elsewhere, earlier]
    assert without_covered_reads([read, elsewhere]) == [read, elsewhere]


def test_partial_rows_of_a_tensor_are_a_separate_view():
    views = Views(Engine(), [])
    rows, again = (views.add(0, (4, 2), (2, 1), 4, "float32", is_partial=True) for _ in range(2))
    assert rows == again != views.add(0, (4, 2), (2, 1), 4, "float32")


def test_a_view_covers_its_bytes_regardless_of_shape():
    views = Views(Engine(), [])
    flat, turned = views.add(0, (8,), (1,), 4, "float32"), views.add(0, (2, 4), (1, 2), 4, "float32")
    assert flat != turned
    assert all(views.covers_exactly(view, dense(0, 32)) for view in (flat, turned))
    assert not views.covers_exactly(flat, dense(0, 16))
