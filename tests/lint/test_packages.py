"""Mistakes that several files of a package make together. Each has a correct twin."""

import textwrap

import pytest

from syncheck.lint.engine import lint_data
from syncheck.rules.model import Severity


@pytest.fixture
def codes(tmp_path):
    """Return the codes of the errors and warnings in one file of a package, given the texts of its files."""

    def lint(name, **files):
        (tmp_path / "pyproject.toml").touch()
        for stem, text in files.items():
            (tmp_path / f"{stem}.py").write_text(textwrap.dedent(text))
        result = lint_data(str(tmp_path / f"{name}.py"), (tmp_path / f"{name}.py").read_bytes())
        assert not result.problem
        return [finding.rule.code for finding in result.findings if finding.level is not Severity.ADVICE]

    return lint


COPIER = """
    import torch

    class Copier:
        def __init__(self, device):
            self.device = device

        def start(self, batch):
            raise NotImplementedError

    class SideCopier(Copier):
        def __init__(self, device):
            super().__init__(device)
            self.side = torch.cuda.Stream(device)

        def start(self, batch):
            with torch.cuda.stream(self.side):
                return batch.pin_memory().to(self.device, non_blocking=True)

    def copier_for(device):
        if device.type == "cuda":
            return SideCopier(device)
        return Copier(device)
"""
MAKING = "from copier import copier_for"
READER = """
    import torch
    {imported}

    class Reader:
        def __init__(self, source, device):
            self.source = source
            self.copier = copier_for(device)

        def __iter__(self):
            for batch in self.source:
                ready = self.copier.start(batch)
                {wait}
                ready.record_stream(torch.cuda.current_stream())
                yield ready
"""
WAIT = "torch.cuda.current_stream().wait_stream(self.copier.side)"


@pytest.mark.parametrize(("wait", "expected"), [("pass", ["SYN101"]), (WAIT, [])])
def test_an_object_of_another_file_leaves_a_copy_running(codes, wait, expected):
    assert codes("reader", copier=COPIER, reader=READER.format(imported=MAKING, wait=wait)) == expected


@pytest.mark.parametrize(("wait", "expected"), [("pass", ["SYN101"]), (WAIT, [])])
def test_the_class_may_be_imported_by_a_third_file(codes, wait, expected):
    maker = "from copier import SideCopier\n\ndef copier_for(device):\n    return SideCopier(device)\n"
    reader = READER.format(imported="from maker import copier_for", wait=wait)
    assert codes("reader", copier=COPIER, maker=maker, reader=reader) == expected


FETCH = """
    from typing import NamedTuple
    import torch

    class Fetched(NamedTuple):
        rows: torch.Tensor
        done: torch.cuda.Event

    def fetch(rows, target):
        target.copy_(rows, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return Fetched(target, done)
"""
SINK = """
    class Sink:
        def __init__(self):
            self.rows = []

        def take(self, rows):
            if not self.rows:
                self.rows = rows.tolist()
"""
EXPORT = """
    import torch
    from fetch import fetch
    from sink import Sink

    class Export:
        def __init__(self, sink: {annotation}):
            self.sink = sink
            self.target = torch.empty(64, pin_memory=True)

        def add(self, rows):
            {body}
"""


@pytest.mark.parametrize("annotation", ["Sink", "'Sink'", "Sink | None"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.sink.take(fetch(rows, self.target).rows)", ["SYN301"]),
        ("host, _ = fetch(rows, self.target); self.sink.take(host)", ["SYN301"]),
        ("host = fetch(rows, self.target)[0]; self.sink.take(host)", ["SYN301"]),
        ("host, done = fetch(rows, self.target); done.synchronize(); self.sink.take(host)", []),
    ],
)
def test_a_parameter_is_an_object_of_the_class_that_its_annotation_names(codes, annotation, body, expected):
    export = EXPORT.format(annotation=annotation, body=body)
    assert codes("export", fetch=FETCH, sink=SINK, export=export) == expected


ROWS = """
    import torch

    class Rows:
        def __init__(self, n, width):
            self.host = torch.empty((n, width), pin_memory=True)
            self.free = list(range(n))

        def take(self):
            return self.free.pop()

        def __getitem__(self, row):
            return self.host[row]

        def __setitem__(self, row, value):
            self.host[row].copy_(value, non_blocking=True)
"""
STORE = """
    import torch
    from rows import Rows

    class Store:
        def __init__(self, rows: Rows):
            self.rows = rows
            self.side = torch.cuda.Stream()

        def save(self, block, done):
            row = self.rows.take()
            {save}
            {wait}
            return self.rows[{row}].numpy().sum()
"""


@pytest.mark.parametrize("save", ["self.rows[row].copy_(block, non_blocking=True)", "self.rows[row] = block"])
@pytest.mark.parametrize(
    ("wait", "row", "expected"),
    [("pass", "row", ["SYN301"]), ("torch.cuda.synchronize()", "row", []), ("pass", "self.rows.take()", [])],
)
def test_the_same_unknown_index_selects_the_same_row(codes, save, wait, row, expected):
    assert codes("store", rows=ROWS, store=STORE.format(save=save, wait=wait, row=row)) == expected


BUFFERS = """
    import torch

    class Buffers:
        def __init__(self, size):
            self.free = [(torch.empty(size, pin_memory=True), None), (torch.empty(size, pin_memory=True), None)]

        def take(self):
            buffer, done = self.free.pop(0)
            if done is not None:
                done.synchronize()
            return buffer

        def put(self, buffer, done=None):
            self.free.append((buffer, done))
"""
UPLOAD = """
    import torch
    from buffers import Buffers

    class Upload:
        def __init__(self, buffers: Buffers):
            self.buffers = buffers
            self.side = torch.cuda.Stream()

        def send(self, files):
            sent = []
            for file in files:
                buffer = self.buffers.take()
                file.readinto(memoryview(buffer.numpy()))
                with torch.cuda.stream(self.side):
                    sent.append(buffer.to("cuda", non_blocking=True))
                self.buffers.put(buffer{done})
            torch.cuda.current_stream().wait_stream(self.side)
            for tensor in sent:
                tensor.record_stream(torch.cuda.current_stream())
            return sent
"""


@pytest.mark.parametrize(("done", "expected"), [("", ["SYN302"]), (", self.side.record_event()", [])])
def test_a_file_is_read_into_a_buffer_that_is_still_being_copied(codes, done, expected):
    assert codes("upload", buffers=BUFFERS, upload=UPLOAD.format(done=done)) == expected


def named_in(tmp_path, name, **files):
    """Return the message and the advice of the only finding in one file of a package."""
    (tmp_path / "pyproject.toml").touch()
    for stem, text in files.items():
        (tmp_path / f"{stem}.py").write_text(textwrap.dedent(text))
    (finding,) = lint_data(str(tmp_path / f"{name}.py"), (tmp_path / f"{name}.py").read_bytes()).findings
    return finding.message, str(finding.fix)


def test_a_stream_of_an_object_is_named_as_its_attribute(tmp_path):
    reader = READER.format(imported=MAKING, wait="pass")
    message, advice = named_in(tmp_path, "reader", copier=COPIER, reader=reader)
    assert "`self.copier.side`" in message
    assert "wait_stream(self.copier.side)" in advice


def test_a_stream_that_a_function_returns_is_named_as_its_variable(tmp_path):
    user = """
        import torch
        from streams import new_stream
        def f(x):
            side = new_stream()
            with torch.cuda.stream(side):
                y = torch.zeros(3, device="cuda")
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            y.record_stream(torch.cuda.current_stream())
            return y + 1
    """
    streams = "import torch\ndef new_stream(): return torch.cuda.Stream()\n"
    message, _ = named_in(tmp_path, "user", streams=streams, user=user)
    assert "stream `side`" in message
