"""A flag that a process shares with its forked children."""

import os

from syncheck.system.shared_flag import SharedFlag


def test_a_flag_is_not_set_at_first():
    flag = SharedFlag()
    assert not flag.is_set
    flag.set()
    assert flag.is_set


def test_a_flag_is_set_by_a_child_of_a_child():
    flag, other = SharedFlag(), SharedFlag()
    child = os.fork()
    if not child:
        grandchild = os.fork()
        if not grandchild:
            flag.set()
        else:
            os.waitpid(grandchild, 0)
        os._exit(0)
    os.waitpid(child, 0)
    assert flag.is_set
    assert not other.is_set
