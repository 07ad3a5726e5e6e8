"""What an editor has open, as the linter takes it: a Python file, or the code cells of a notebook as one text."""

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lsprotocol import types as lsp
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument, Workspace

from syncheck.findings import Finding, Frame
from syncheck.lint import files, places
from syncheck.lint.fixes.documents import Notebook

_PYTHON = frozenset({"python", "", None})
"""Languages of the cells that are checked; an old client may name none."""


class OpenDocument(Protocol):
    """Something that is open in an editor and can be linted.

    Attributes:
        uri: what it is known by.
        path: of its file.
        text: as Python.
        version: changes with the text.
    """

    uri: str
    path: str
    text: str

    @property
    def version(self) -> object:
        """See the class."""
        ...

    def parts(self) -> list[TextDocument]:
        """Return the texts that the editor shows: the file itself, or the code cells of a notebook."""
        ...

    def placed(self, finding: Finding) -> Finding:
        """Return a finding in `text` as one in the parts."""
        ...

    def part_of(self, frame: Frame) -> TextDocument:
        """Return the part that a place of a finding, as `placed` returns it, is in."""
        ...

    def edits(self, text: str) -> dict[str, list[lsp.TextEdit]]:
        """Return what makes the parts those of another text, by the uris of the parts."""
        ...


class OpenFile:
    """A Python file."""

    def __init__(self, document: TextDocument) -> None:
        self._document = document
        self.uri = document.uri
        self.path = to_fs_path(document.uri) or document.uri
        self.text = document.source

    @property
    def version(self) -> object:
        """See `OpenDocument`."""
        return self._document.version

    def parts(self) -> list[TextDocument]:
        """See `OpenDocument`."""
        return [self._document]

    def placed(self, finding: Finding) -> Finding:
        """See `OpenDocument`."""
        return finding

    def part_of(self, frame: Frame) -> TextDocument:
        """See `OpenDocument`."""
        del frame
        return self._document

    def edits(self, text: str) -> dict[str, list[lsp.TextEdit]]:
        """See `OpenDocument`."""
        return {self.uri: line_edits(self.text, text)}


@dataclass(slots=True)
class _Cells:
    """The cells of a notebook: their numbers from 1, and the code among them."""

    content: str
    code: dict[int, TextDocument] = field(default_factory=dict)


class OpenNotebook:
    """The code cells of a notebook."""

    def __init__(self, notebook: lsp.NotebookDocument, document_of: Callable[[str], TextDocument]) -> None:
        self.uri = notebook.uri
        self.path = to_fs_path(notebook.uri) or notebook.uri
        self._cells = _cells(notebook, document_of)
        self._notebook = Notebook.of(self._cells.content)
        self.text = self._notebook.text
        self._version = (notebook.version, *((cell.uri, cell.version) for cell in self._cells.code.values()))

    @property
    def version(self) -> object:
        """See `OpenDocument`."""
        return self._version

    def parts(self) -> list[TextDocument]:
        """See `OpenDocument`."""
        return list(self._cells.code.values())

    def placed(self, finding: Finding) -> Finding:
        """See `OpenDocument`."""
        return self._notebook.placed(finding, self.path, self.text)

    def part_of(self, frame: Frame) -> TextDocument:
        """See `OpenDocument`."""
        return self._cells.code[places.cell_number(frame.path)]

    def edits(self, text: str) -> dict[str, list[lsp.TextEdit]]:
        """See `OpenDocument`."""
        cells = json.loads(self._notebook.data(text))["cells"]
        code = self._cells.code.items()
        found = {cell.uri: line_edits(cell.source, cells[number - 1]["source"]) for number, cell in code}
        return {uri: edits for uri, edits in found.items() if edits}


def _cells(notebook: lsp.NotebookDocument, document_of: Callable[[str], TextDocument]) -> _Cells:
    """Return the cells of a notebook, with its content as a file has it."""
    found = _Cells("")
    written: list[dict[str, str]] = []
    for number, cell in enumerate(notebook.cells, 1):
        document = document_of(cell.document)
        is_code = cell.kind == lsp.NotebookCellKind.Code and document.language_id in _PYTHON
        written.append({"cell_type": "code" if is_code else "markdown", "source": document.source})
        if is_code:
            found.code[number] = document
    found.content = json.dumps({"cells": written})
    return found


def opened(workspace: Workspace, uri: str) -> OpenDocument:
    """Return the file with a uri, or the notebook that has it, or has it as a cell."""
    notebook = workspace.get_notebook_document(notebook_uri=uri) or workspace.get_notebook_document(cell_uri=uri)
    if notebook is not None:
        return OpenNotebook(notebook, workspace.get_text_document)
    return OpenFile(workspace.get_text_document(uri))


def line_edits(before: str, after: str) -> list[lsp.TextEdit]:
    """Return the lines that make one text another."""
    old, new = files.lines_of(before), files.lines_of(after)
    return [
        lsp.TextEdit(lsp.Range(lsp.Position(start, 0), lsp.Position(stop, 0)), "".join(new[first:last]))
        for tag, start, stop, first, last in difflib.SequenceMatcher(None, old, new).get_opcodes()
        if tag != "equal"
    ]
