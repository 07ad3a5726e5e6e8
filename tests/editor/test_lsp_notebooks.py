"""In notebooks, the language server's diagnostics and quick fixes apply to the cells."""

import asyncio

from lsprotocol import types as lsp

from tests.editor.test_lsp import SECONDS, changed
from tests.editor.test_lsp import in_editor as in_editor  # noqa: PLC0414  a fixture

MAGIC = "%matplotlib inline\nimport torch\nside = torch.cuda.Stream()"
TITLE = "# A title"
MAKES = 'x = torch.ones(4, device="cuda")'
USES = "with torch.cuda.stream(side):\n    y = x * 2"
WAIT = "side.wait_stream(torch.cuda.current_stream())"
NAME = "a note book.ipynb"


class Notebook:
    """A notebook open in an editor.

    Attributes:
        cells: uri -> text, in order.
    """

    def __init__(self, editor, *cells):
        self.editor, self.version, self.cells = editor, 0, {}
        items = [self.make(text, kind) for text, kind in cells]
        document = lsp.NotebookDocument(editor.uri, "jupyter-notebook", 0, [cell for cell, _ in items])
        params = lsp.DidOpenNotebookDocumentParams(document, [item for _, item in items])
        editor.client.notebook_document_did_open(params)

    def make(self, text, kind):
        uri = self.editor.uri.replace("file:", "vscode-notebook-cell:") + f"#W{len(self.cells)}"
        self.cells[uri] = text
        cell = lsp.NotebookCell(kind, uri)
        language = "python" if kind is lsp.NotebookCellKind.Code else "markdown"
        return cell, lsp.TextDocumentItem(uri, language, 0, text)

    def change(self, cells):
        self.version += 1
        document = lsp.VersionedNotebookDocumentIdentifier(self.version, self.editor.uri)
        change = lsp.NotebookDocumentChangeEvent(cells=cells)
        self.editor.client.notebook_document_did_change(lsp.DidChangeNotebookDocumentParams(document, change))

    def type(self, uri, text):
        self.cells[uri] = text
        cell = lsp.VersionedTextDocumentIdentifier(self.version + 1, uri)
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        self.change(
            lsp.NotebookDocumentCellChanges(text_content=[lsp.NotebookDocumentCellContentChanges(cell, [whole])])
        )

    def remove(self, uri):
        number = list(self.cells).index(uri)
        del self.cells[uri]
        structure = lsp.NotebookDocumentCellChangeStructure(
            lsp.NotebookCellArrayChange(number, 1, []), did_close=[lsp.TextDocumentIdentifier(uri)]
        )
        self.change(lsp.NotebookDocumentCellChanges(structure=structure))

    def close(self):
        identifiers = [lsp.TextDocumentIdentifier(uri) for uri in self.cells]
        document = lsp.NotebookDocumentIdentifier(self.editor.uri)
        self.editor.client.notebook_document_did_close(lsp.DidCloseNotebookDocumentParams(document, identifiers))

    def apply(self, edit):
        for uri in edit.changes:
            self.type(uri, changed(self.cells[uri], edit, uri))

    async def diagnostics(self, n):
        """Return the next n published lists of diagnostics, by cell URI."""
        published = [await asyncio.wait_for(self.editor.published.get(), SECONDS) for _ in range(n)]
        return {each.uri: list(each.diagnostics) for each in published}


def race(editor):
    code, text = lsp.NotebookCellKind.Code, lsp.NotebookCellKind.Markup
    notebook = Notebook(editor, (MAGIC, code), (TITLE, text), (MAKES, code), (USES, code))
    setup, _, makes, uses = notebook.cells
    return notebook, setup, makes, uses


def test_findings_belong_to_their_cells(in_editor):
    async def use(editor):
        notebook, setup, makes, uses = race(editor)
        found = await notebook.diagnostics(3)
        assert found[setup] == found[makes] == []
        (finding,) = found[uses]
        assert (finding.code, finding.range.start.line, finding.range.start.character) == ("SYN101", 1, 8)
        assert "before line 1" in finding.message  # of this cell
        (related,) = finding.related_information
        assert (related.location.uri, related.location.range.start.line) == (makes, 0)
        notebook.type(uses, f"{WAIT}\n{USES}")
        assert (await notebook.diagnostics(3))[uses] == []
        notebook.type(uses, USES)
        assert len((await notebook.diagnostics(3))[uses]) == 1
        notebook.close()
        assert (await notebook.diagnostics(4))[uses] == []

    in_editor(use, NAME)


def test_removing_a_cell_removes_its_findings(in_editor):
    async def use(editor):
        notebook, _, makes, uses = race(editor)
        await notebook.diagnostics(3)
        notebook.remove(uses)
        assert await notebook.diagnostics(1) == {uses: []}
        assert (await notebook.diagnostics(2))[makes] == []

    in_editor(use, NAME)


def test_quick_fixes_edit_the_cell(in_editor):
    async def use(editor):
        notebook, setup, _, uses = race(editor)
        (finding,) = (await notebook.diagnostics(3))[uses]
        repair, silence = await editor.actions(finding, lsp.CodeActionKind.QuickFix, uri=uses)
        for action in (silence, repair):
            assert list(action.edit.changes) == [uses]
            notebook.type(uses, USES)
            await notebook.diagnostics(3)
            notebook.apply(action.edit)
            assert (await notebook.diagnostics(3))[uses] == []
        assert notebook.cells[uses] == f"{WAIT}\n{USES}"
        assert notebook.cells[setup] == MAGIC
        notebook.type(uses, USES)
        await notebook.diagnostics(3)
        (everything,) = await editor.actions(finding, lsp.CodeActionKind.SourceFixAll, uri=uses)
        notebook.apply(everything.edit)
        assert (await notebook.diagnostics(3))[uses] == []

    in_editor(use, NAME)


def test_hover_in_a_cell_shows_the_rule(in_editor):
    async def use(editor):
        notebook, _, _, uses = race(editor)
        await notebook.diagnostics(3)
        params = lsp.HoverParams(lsp.TextDocumentIdentifier(uses), lsp.Position(1, 9))
        found = await editor.client.text_document_hover_async(params)
        assert found.contents.value.startswith("# SYN101 unordered-read")

    in_editor(use, NAME)


def test_cells_that_are_not_python_are_ignored(in_editor):
    async def use(editor):
        code = lsp.NotebookCellKind.Code
        notebook = Notebook(editor, (MAGIC, code), ("%%bash\nls -l | grep (", code), (MAKES, code), (USES, code))
        found = await notebook.diagnostics(4)
        assert [len(shown) for shown in found.values()] == [0, 0, 0, 1]

    in_editor(use, NAME)
