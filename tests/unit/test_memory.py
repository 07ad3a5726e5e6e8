"""Shadow memory: what is remembered and what may be forgotten."""

from syncheck.hb.cells import ALLOCATION, AccessRecord, supersede
from syncheck.hb.clock import TICK
from syncheck.hb.footprint import dense, strided
from syncheck.hb.memory import SMALL_BYTES, Block, FreedAccess, Pool

HOME, USER, OTHER = 1, 2, 3
BORN_AT = 5 * TICK | HOME
WHOLE, LEFT_HALF, ROW = dense(0, 128), strided(0, (4, 4), (8, 1), 4), dense(0, 32)
NOTHING_KNOWN = [0, HOME, USER, OTHER]


def block(*footprints) -> Block:
    made = Block(HOME, BORN_AT, 128, 0, 0)
    for key, footprint in enumerate(footprints):
        made.add_cell(key, footprint)
    return made


def freed(
    epoch: int, allocation: int = 1, n_bytes: int = 64, *, use_label: int = 7, allocation_label: int = 5
) -> FreedAccess:
    use = AccessRecord(USER, epoch << 12 | USER, use_label, WHOLE, is_write=True)
    return FreedAccess(allocation, HOME, use, 0, allocation_label, n_bytes)


# -- cells


def test_a_new_cell_carries_the_write_of_the_allocation():
    cell = block(WHOLE).cells[0]
    assert (cell.write, cell.write_label) == (BORN_AT, ALLOCATION)


def test_cells_that_share_a_byte_are_linked():
    made = block(WHOLE, LEFT_HALF, dense(200, 300))
    whole, half, apart = made.cells.values()
    assert whole.overlaps == [half]
    assert half.overlaps == [whole]
    assert apart.overlaps == []


def test_a_cell_inside_an_accessed_one_has_no_first_use():
    made = block(WHOLE, ROW)
    assert made.cells[1].write == 0


def test_a_cell_that_extends_beyond_all_others_still_has_a_first_use():
    made = block(ROW, WHOLE)
    assert made.cells[1].write == BORN_AT


def test_the_allocation_is_not_a_use():
    assert list(block(WHOLE, ROW).uses()) == []


def test_a_reported_first_use_is_cleared_everywhere():
    made = block(ROW, dense(64, 96))
    made.mark_first_use_reported()
    assert [cell.write for cell in made.cells.values()] == [0, 0]
    assert made.add_cell(9, dense(96, 128)).write == 0


def test_clearing_first_uses_keeps_real_writes():
    made = block(ROW, dense(64, 96))
    made.cells[0].write, made.cells[0].write_label = 6 * TICK | USER, 1
    made.mark_first_use_reported()
    assert made.cells[0].write == 6 * TICK | USER


def test_a_read_replaces_an_earlier_read_it_is_ordered_after():
    cell = block(WHOLE).cells[0]
    cell.add_read(TICK | USER, 1, NOTHING_KNOWN)
    cell.add_read(TICK | OTHER, 2, [0, HOME, TICK | USER, TICK | OTHER])
    assert list(cell.all_reads()) == [(TICK | OTHER, 2)]


def test_unordered_reads_are_all_remembered():
    cell = block(WHOLE).cells[0]
    cell.add_read(TICK | USER, 1, NOTHING_KNOWN)
    cell.add_read(TICK | OTHER, 2, NOTHING_KNOWN)
    cell.add_read(2 * TICK | USER, 3, NOTHING_KNOWN)
    assert sorted(cell.all_reads()) == [(TICK | OTHER, 2), (2 * TICK | USER, 3)]


def test_a_write_of_all_bytes_supersedes_cells_inside():
    made = block(WHOLE, ROW)
    made.cells[1].add_read(TICK | USER, 1, NOTHING_KNOWN)
    supersede(made.cells[0])
    assert list(made.cells[1].all_reads()) == []


def test_a_write_of_some_bytes_supersedes_nothing_larger():
    made = block(WHOLE, ROW)
    made.cells[0].add_read(TICK | USER, 1, NOTHING_KNOWN)
    supersede(made.cells[1])
    assert list(made.cells[0].all_reads()) == [(TICK | USER, 1)]


def test_a_strided_write_does_not_supersede_a_partly_overwritten_range():
    made = block(LEFT_HALF, ROW)
    made.cells[1].add_read(TICK | USER, 1, NOTHING_KNOWN)
    supersede(made.cells[0])
    assert list(made.cells[1].all_reads()) == [(TICK | USER, 1)]


# -- prune


def test_prune_drops_accesses_completed_before_a_host_wait():
    made = block(ROW, dense(64, 96))
    for key in (0, 1):
        made.cells[key].write = (key + 1) * TICK | USER
    made.prune([0, BORN_AT, TICK | USER])
    assert list(made.cells) == [1]


def test_prune_keeps_a_cell_with_one_read_unknown_to_the_host():
    made = block(ROW)
    made.cells[0].write = 0
    made.cells[0].add_read(TICK | USER, 1, NOTHING_KNOWN)
    made.cells[0].add_read(TICK | OTHER, 1, NOTHING_KNOWN)
    made.prune([0, BORN_AT, TICK | USER, OTHER])
    assert list(made.cells) == [0]


def test_prune_unlinks_dropped_cells():
    made = block(WHOLE, ROW)
    made.prune(NOTHING_KNOWN)  # the row's history is that of the whole
    assert list(made.cells) == [0]
    assert made.cells[0].overlaps == []


def test_prune_keeps_remaining_cells_linked():
    made = block(WHOLE, ROW)
    whole, row = made.cells.values()
    row.add_read(TICK | USER, 1, NOTHING_KNOWN)
    made.prune(NOTHING_KNOWN)
    assert whole.overlaps == [row]
    assert row.overlaps == [whole]


# -- freed memory


def test_a_use_joined_by_the_home_stream_is_not_a_hazard():
    pool = Pool()
    pool.add(freed(epoch=3))
    assert pool.take(64, [0, HOME, 3 * TICK | USER]) == []
    assert pool.pending == {}


def test_a_hazard_is_returned_once():
    pool = Pool()
    pool.add(freed(epoch=3))
    assert pool.take(64, NOTHING_KNOWN) == [freed(epoch=3)]
    assert pool.take(64, NOTHING_KNOWN) == []


def test_a_small_request_never_gets_a_large_block():
    pool = Pool()
    pool.add(freed(epoch=3, n_bytes=SMALL_BYTES + 1))
    assert pool.take(SMALL_BYTES, NOTHING_KNOWN) == []
    assert len(pool.take(SMALL_BYTES + 1, NOTHING_KNOWN)) == 1


def test_the_pool_stays_bounded_when_one_place_keeps_freeing():
    pool = Pool()
    for allocation in range(1_000):
        pool.add(freed(epoch=allocation + 1, allocation=allocation))
    assert len(pool.pending) == 1


def test_of_uses_with_one_cause_the_one_joined_last_is_kept():
    pool = Pool()
    pool.add(freed(epoch=9, allocation=2))
    pool.add(freed(epoch=3, allocation=1))  # used earlier, freed later
    knows_the_first_use = [0, HOME, 5 * TICK | USER]
    assert [use.allocation for use in pool.take(64, knows_the_first_use)] == [2]


def test_a_large_block_does_not_hide_a_small_one_with_the_same_cause():
    pool = Pool()
    pool.add(freed(epoch=3, allocation=1))
    pool.add(freed(epoch=4, allocation=2, n_bytes=SMALL_BYTES + 1))
    assert [use.allocation for use in pool.take(64, NOTHING_KNOWN)] == [1]


def test_different_uses_are_different_hazards():
    pool = Pool()
    pool.add(freed(epoch=3, use_label=7))
    pool.add(freed(epoch=4, use_label=8))
    pool.add(freed(epoch=4, use_label=8, allocation_label=6))
    assert len(pool.take(64, NOTHING_KNOWN)) == 3


def test_all_tensors_used_by_one_operation_are_kept():
    pool = Pool()
    for allocation in (1, 2, 2, 3):
        pool.add(freed(epoch=4, allocation=allocation))
    pool.add(freed(epoch=3, allocation=4))  # of an earlier operation with the same cause
    assert [use.allocation for use in pool.take(64, NOTHING_KNOWN)] == [1, 2, 3]
    assert pool.take(64, NOTHING_KNOWN) == []
