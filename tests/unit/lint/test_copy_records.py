"""Classes whose objects hold copies in flight together with the event after them."""

import ast

import pytest

from syncheck.lint.copy_records import CopyRecords, imported_records

SOURCE = """
import threading
import torch
class Slot:
    def __init__(self):
        self.host = torch.empty(4, pin_memory=True)
        self.plain = torch.empty(4, pin_memory=False)
        self.moved = torch.empty(4).pin_memory()
        self.copied = torch.cuda.Event()
        self.stopped = threading.Event()
    def fence(self):
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)
    def join(self):
        self.copied.wait()
        self.copied.synchronize()
    def stop(self):
        self.stopped.wait()
class Pool:
    def __init__(self):
        self.spare = torch.empty(4, pin_memory=True)
"""


def test_a_class_with_an_event_and_pinned_memory():
    records = CopyRecords(ast.parse(SOURCE))
    assert records.events == {"copied"}
    assert records.pinned == {"host", "moved"}
    assert records.fences == {"fence": "copied"}
    assert records.are_pinned


def test_a_method_name_of_two_classes_is_no_fence():
    other = "class Other:\n    def fence(self):\n        pass\n"
    assert CopyRecords(ast.parse(SOURCE + other)).fences == {}


@pytest.mark.parametrize(
    "field", ["copied: torch.cuda.Event", "copied: Optional[torch.cuda.Event] = None", "copied: 'torch.cuda.Event'"]
)
def test_declared_events_of_an_imported_class(field):
    job = f"class Job:\n    host: torch.Tensor\n    {field}\n    def fence(self): self.copied.wait()"
    (kind,) = ast.parse(job).body
    records = CopyRecords(ast.parse("from jobs import Job"), [kind])
    assert (records.events, records.fences, records.are_pinned) == ({"copied"}, {"fence": "copied"}, False)


def test_only_classes_are_looked_up_in_other_files():
    asked = []

    def find(name, words):
        asked.append(name)
        return ast.parse("class Job: pass").body[0] if name == "jobs.Job" else None

    imports = {"torch": "torch", "Job": "jobs.Job", "_Slot": "..slots._Slot", "f": "jobs.f", "nn": "torch.nn"}
    assert [kind.name for kind in imported_records(imports, find)] == ["Job"]
    assert asked == ["jobs.Job", "..slots._Slot"]
