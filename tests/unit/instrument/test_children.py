"""Processes that the program starts."""

import subprocess
import sys
from multiprocessing import get_context

import pytest

from syncheck.instrument import children
from syncheck.instrument.children import NOT_CHECKED, install_children
from syncheck.instrument.patching import Patches
from syncheck.ranks import rendezvous


class Member:
    """This process, as a member of a job."""

    has_children = False
    arguments = ("--quiet",)

    def __init__(self, folder=None, sent=None):
        self.folder, self.sent = folder, sent

    def folder_for_children(self):
        return self.folder

    def for_spawned(self):
        return self.sent


@pytest.fixture
def notes(monkeypatch):
    patches, notes = Patches(), []
    monkeypatch.setattr(rendezvous, "active", None)
    install_children(patches, notes.append, lambda: None)
    yield notes
    patches.undo()


def test_an_unchecked_python_program_is_reported(notes):
    subprocess.run([sys.executable, "-c", ""], check=True)
    subprocess.run(["true"], check=True)
    assert len(notes) == 1
    assert "was not checked" in notes[0]


@pytest.mark.parametrize(
    ("path", "arguments", "is_named"),
    [
        (sys.executable, ["python", "x.py"], True),
        (b"/usr/bin/torchrun", (b"torchrun", b"x.py"), True),
        (sys.executable, ["python", "-m", "syncheck", "run", "x.py"], False),
        ("/bin/sh", ["sh"], False),
        (3, ["python"], False),
    ],
)
def test_a_python_program_that_replaces_this_process_is_reported(path, arguments, is_named):
    notes = []
    children.note_replaced(path, arguments, notes.append)
    assert bool(notes) == is_named


def test_a_program_started_under_syncheck_is_not_reported(notes):
    subprocess.run([sys.executable, "-m", "syncheck", "explain", "SYN101"], check=True, capture_output=True)
    assert notes == []


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["/usr/bin/python3", "-c"], "python3"),
        ("torchrun a.py", "torchrun"),
        ([b"ls"], "ls"),
        ([], ""),
        (3, ""),
        ("'", ""),
    ],
)
def test_the_program_of_a_command_is_identified(args, name):
    assert children._program(args) == name


RANK = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


def test_a_rank_started_by_a_launcher_is_checked(monkeypatch):
    member = Member("/folder")
    monkeypatch.setattr(rendezvous, "active", member)
    words, environment = children._checked([sys.executable, "-u", "train.py", "--lr"], RANK)
    assert words == [sys.executable, "-u", "-m", "syncheck", "run", "--quiet", "train.py", "--lr"]
    assert environment[rendezvous.PARTS] == "/folder"
    assert member.has_children


def test_a_rank_with_only_a_local_rank_is_checked(monkeypatch):
    monkeypatch.setattr(rendezvous, "active", Member("/folder"))
    words, environment = children._checked([sys.executable, "train.py"], {"LOCAL_RANK": "1", "WORLD_SIZE": "2"})
    assert words[1:4] == ["-m", "syncheck", "run"]
    assert rendezvous.PARTS not in environment  # the rank that starts it is one of the job


@pytest.mark.parametrize(
    ("args", "environment"),
    [
        ([sys.executable, "train.py"], {"WORLD_SIZE": "2"}),
        ([sys.executable, "train.py"], {}),
        ([sys.executable, "train.py"], None),
        (["other", "train.py"], RANK),
        ([sys.executable, "-c", "x"], RANK),
        ([sys.executable, "-u"], RANK),
        ("python train.py", RANK),
    ],
)
def test_other_programs_are_left_unchanged(monkeypatch, args, environment):
    monkeypatch.setattr(rendezvous, "active", Member())
    assert children._checked(args, environment) is None


def test_a_program_already_under_syncheck_is_not_wrapped_again(monkeypatch):
    monkeypatch.setattr(rendezvous, "active", Member())
    words = [sys.executable, "-m", "syncheck", "run", "train.py"]
    assert children._checked(words, RANK) == (words, RANK)


def test_ranks_of_a_multi_machine_job_have_no_shared_folder(monkeypatch):
    monkeypatch.setattr(rendezvous, "active", Member("/folder"))
    _, environment = children._checked([sys.executable, "-m", "train"], {**RANK, "LOCAL_WORLD_SIZE": "1"})
    assert rendezvous.PARTS not in environment


def test_an_unchecked_spawned_process_is_reported(notes):
    process = get_context("spawn").Process(target=print)
    process.start()
    process.join()
    assert notes == [NOT_CHECKED]
