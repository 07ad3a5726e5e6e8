"""Open editor documents in the form that the linter takes: a Python file, or a notebook's code cells as one text."""

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lsprotocol import types as lsp
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument, Workspace

from syncheck.findings import Finding, Frame
from syncheck.lint import files, locations
from syncheck.lint.fixes.documents import Notebook

_PYTHON = frozenset({"python", "", None})
"""Languages of the cells that are checked; old clients may not name one."""


class OpenDocument(Protocol):
    """An open document that can be linted.

    Attributes:
        uri: its URI.
        path: path of its file.
        text: its text as Python.
        version: a value that changes with the text.
    """

    uri: str
    path: str
    text: str

    @property
    def version(self) -> object:
        """See the class."""
        ...

    def parts(self) -> list[TextDocument]:
        """Return the documents that the editor shows: the file itself, or the code cells of a notebook."""
        ...

    def map_to_parts(self, finding: Finding) -> Finding:
        """Convert a finding in `text` to one in the parts."""
        ...

    def part_of(self, frame: Frame) -> TextDocument:
        """Return the part that contains a frame of a finding returned by `map_to_parts`."""
        ...

    def edits(self, text: str) -> dict[str, list[lsp.TextEdit]]:
        """Return the edits that change the parts to match another text, by URI of the part."""
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

    def map_to_parts(self, finding: Finding) -> Finding:
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
    """The cells of a notebook: their content as a file, and the code cells by number, from 1."""

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

    def map_to_parts(self, finding: Finding) -> Finding:
        """See `OpenDocument`."""
        return self._notebook.placed(finding, self.path, self.text)

    def part_of(self, frame: Frame) -> TextDocument:
        """See `OpenDocument`."""
        return self._cells.code[locations.cell_number(frame.path)]

    def edits(self, text: str) -> dict[str, list[lsp.TextEdit]]:
        """See `OpenDocument`."""
        cells = json.loads(self._notebook.data(text))["cells"]
        code = self._cells.code.items()
        found = {cell.uri: line_edits(cell.source, cells[number - 1]["source"]) for number, cell in code}
        return {uri: edits for uri, edits in found.items() if edits}


def _cells(notebook: lsp.NotebookDocument, document_of: Callable[[str], TextDocument]) -> _Cells:
    """Return the cells of a notebook, with its content in file format."""
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
    """Return the document for a URI: a file, a notebook, or the notebook that contains the cell."""
    notebook = workspace.get_notebook_document(notebook_uri=uri) or workspace.get_notebook_document(cell_uri=uri)
    if notebook is not None:
        return OpenNotebook(notebook, workspace.get_text_document)
    return OpenFile(workspace.get_text_document(uri))


def line_edits(before: str, after: str) -> list[lsp.TextEdit]:
    """Return the line edits that turn one text into another."""
    old, new = files.lines_of(before), files.lines_of(after)
    return [
        lsp.TextEdit(lsp.Range(lsp.Position(start, 0), lsp.Position(stop, 0)), "".join(new[first:last]))
        for tag, start, stop, first, last in difflib.SequenceMatcher(None, old, new).get_opcodes()
        if tag != "equal"
    ]
