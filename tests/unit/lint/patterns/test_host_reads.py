"""Copies that are read on the host after only a stream has waited for their event."""

import ast

import pytest

from syncheck.lint.patterns import host_reads
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

JOB = """
import torch
class Job:
    host: torch.Tensor
    copied: torch.cuda.Event
def put(x, queue):
    host = torch.empty(4, pin_memory=True)
    host.copy_(x, non_blocking=True)
    queue.put(Job(host, torch.cuda.current_stream().record_event()))
class Writer:
    def read(self, job):
        return job.host.numpy()
    def use(self, job):
        return job.host.cuda()
    def write(self, job, path):
"""


def found(body):
    source = JOB + "".join(f"        {line}\n" for line in body.split("\n"))
    assert host_reads.can_matter(source)
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.message) for f in host_reads.findings(context_of(file))]


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("job.copied.wait()\ntorch.save(job.host, path)", True),
        ("torch.cuda.current_stream().wait_event(job.copied)\njob.host.numpy().tofile(path)", True),
        ("job.copied.wait()\nself.read(job)", True),
        ("job.copied.synchronize()\ntorch.save(job.host, path)", False),
        ("job.copied.wait()\njob.copied.synchronize()\ntorch.save(job.host, path)", False),
        ("torch.save(job.host, path)\njob.copied.wait()", False),
        ("job.copied.wait()\nself.use(job)\nself.read(job)", False),  # used on a GPU, too
        ("job.copied.wait()\nself.read(path)", False),
        ("job.started.wait()\ntorch.save(job.host, path)", False),  # may be an event of threading
        ("job.copied.wait()\nlog(path)", False),
    ],
)
def test_the_host_reads_what_only_a_stream_has_waited_for(body, is_found):
    assert [code for code, _ in found(body)] == ["SYN402"] * is_found


def test_the_message_says_where_the_host_reads():
    ((_, message),) = found("job.copied.wait()\nlog(path)\ntorch.save(job.host, path)")
    line = JOB.count("\n") + 3
    assert (
        message == f"`job.copied.wait()` does not block the host: the host then reads what was copied, in line {line}"
    )


def test_files_without_copies_that_do_not_wait_are_skipped():
    assert not host_reads.can_matter("x.to(device)\ne = torch.cuda.Event()")


OWN = """
import torch
def f(x, host, other, path, stream):
    done = torch.cuda.Event() if x.is_cuda else None
"""


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("host.copy_(x, non_blocking=True)\ndone.record()\ndone.wait()\nreturn host.numpy()", True),
        ("host[:4].copy_(x, non_blocking=x.is_cuda)\ndone.record()\ndone.wait()\nreturn host[:4].tolist()", True),
        ("host.a.copy_(x, non_blocking=True)\ndone.record(stream)\ndone.wait()\nuse(host.a.view(-1).tolist())", True),
        ("host.copy_(x, non_blocking=True)\ndone.record()\ndone.synchronize()\nreturn host.numpy()", False),
        ("host.copy_(x, non_blocking=True)\ndone.record()\ndone.wait()\nx.cpu()\nreturn host.numpy()", False),
        ("host.copy_(x, non_blocking=True)\ndone.record()\ndone.wait()\nx.item()\nreturn host.numpy()", False),
        ("host.copy_(x)\ndone.record()\ndone.wait()\nreturn host.numpy()", False),
        ("done.record()\nhost.copy_(x, non_blocking=True)\ndone.wait()\nreturn host.numpy()", False),  # SYN301
        ("host.copy_(x, non_blocking=True)\ndone.record()\nuse(host.numpy())\ndone.wait()", False),
        ("host.copy_(x, non_blocking=True)\ndone.record()\ndone.wait()\nreturn other.numpy()", False),
    ],
)
def test_a_function_reads_what_it_copied_itself(body, is_found):
    source = OWN + "".join(f"    {line}\n" for line in body.split("\n"))
    file = SourceFile("file.py", source)
    found = [f.rule.code for f in host_reads.findings(context_of(file))]
    assert found == ["SYN402"] * is_found


SLOTS = """
import torch
class Slot:
    def __init__(self):
        self.host = torch.empty(4, pin_memory=True)
        self.ids = None
        self.copied = torch.cuda.Event()
    def fence(self):
        torch.cuda.current_stream().wait_event(self.copied)
def fill(slot, x):
    slot.host.copy_(x, non_blocking=True)
    slot.copied.record()
def use(table, slot, path):
"""


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("slot.copied.wait()\ntable.index_add_(0, slot.ids, slot.host[:2])", True),
        ("slot.fence()\ntorch.save(slot.host, path)", True),
        ("slot.fence()\ntable.copy_(slot.host)", False),  # may be on the GPU
        ("slot.copied.wait()\ntable.index_add_(0, slot.ids, slot.ids)", False),
        ("slot.fence()\nslot.copied.synchronize()\ntable.add_(slot.host)", False),
        ("table.add_(slot.host)\nslot.fence()", False),
    ],
)
def test_pinned_memory_of_a_slot_is_read_after_a_stream_has_waited(body, is_found):
    source = SLOTS + "".join(f"    {line}\n" for line in body.split("\n"))
    file = SourceFile("file.py", source)
    found = list(host_reads.findings(context_of(file)))
    assert [f.rule.code for f in found] == ["SYN402"] * is_found
    assert all(f.help == "call `slot.copied.synchronize()`" for f in found)


def test_the_class_of_a_job_may_be_imported():
    job = "class CopyJob:\n    host: torch.Tensor\n    copied: torch.cuda.Event\n"
    pool = "class BufferPool:\n    def make(self): return torch.empty(4, pin_memory=True)\n"
    kinds = {kind.name: kind for kind in ast.parse(job + pool).body}
    imports = "from jobs import CopyJob, BufferPool\n"
    write = "def write(job, path):\n    job.copied.wait()\n    torch.save(job.host, path)\n"
    file = SourceFile("file.py", imports + write)
    assert host_reads.can_matter(file.text)
    context = context_of(file, find_class=lambda name, words: kinds[name.rpartition(".")[2]])
    assert [f.rule.code for f in host_reads.findings(context)] == ["SYN402"]
    assert list(host_reads.findings(context_of(file))) == []
