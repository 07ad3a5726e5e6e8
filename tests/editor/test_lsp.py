"""The language server, driven by a real client over standard input and output."""

import asyncio
import time
from functools import partial

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from pygls.workspace import Workspace

from syncheck.cli import lsp as server_module
from syncheck.lint.result import Result
from tests import warm

BAD = """import torch

side = torch.cuda.Stream()
é = "ß🔥", torch.ones(4, device="cuda")
x = torch.ones(4, device="cuda")
with torch.cuda.stream(side):
    y = "🔥", x * 2
"""
SECONDS = 20


class Editor:
    """An editor with one document."""

    def __init__(self, path):
        self.uri = path.as_uri()
        self.client = LanguageClient("test", "1")
        self.published = asyncio.Queue()
        self.messages = asyncio.Queue()
        self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self.published.put_nowait))
        self.client.feature(lsp.WINDOW_SHOW_MESSAGE)(partial(self.messages.put_nowait))
        self.version = 0

    async def start(self, folder):
        await self.client.start_io(warm.PYTHON, "-m", "syncheck", "lsp", cwd=folder)
        notebooks = lsp.NotebookDocumentClientCapabilities(lsp.NotebookDocumentSyncClientCapabilities())
        abilities = lsp.ClientCapabilities(notebook_document=notebooks)
        asked = lsp.InitializeParams(abilities, root_uri=folder.as_uri())
        answer = await self.client.initialize_async(asked)
        self.client.initialized(lsp.InitializedParams())
        return answer

    async def stop(self):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def open(self, text):
        item = lsp.TextDocumentItem(self.uri, "python", self.version, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def type(self, text):
        self.version += 1
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self):
        return list((await asyncio.wait_for(self.published.get(), SECONDS)).diagnostics)

    async def hover(self, line, character):
        params = lsp.HoverParams(lsp.TextDocumentIdentifier(self.uri), lsp.Position(line, character))
        return await self.client.text_document_hover_async(params)

    async def actions(self, diagnostic, *only, uri=""):
        context = lsp.CodeActionContext([diagnostic], only=only or None)
        document = lsp.TextDocumentIdentifier(uri or self.uri)
        params = lsp.CodeActionParams(document, diagnostic.range, context)
        return list(await self.client.text_document_code_action_async(params))


def changed(text, edit, uri):
    lines = text.splitlines(keepends=True)
    for change in reversed(edit.changes[uri]):
        lines[change.range.start.line : change.range.end.line] = [change.new_text]
    return "".join(lines)


@pytest.fixture
def in_editor(tmp_path):
    """Return a function that runs a coroutine function with an editor connected to a server."""

    def run(use, name="train.py"):
        async def session():
            editor = Editor(tmp_path / name)
            await editor.start(tmp_path)
            try:
                await use(editor)
            finally:
                await editor.stop()

        asyncio.run(asyncio.wait_for(session(), 100))

    return run


def test_findings_are_published_and_updated_while_typing(in_editor):
    async def use(editor):
        editor.open(BAD)
        (finding,) = await editor.diagnostics()
        assert (finding.code, finding.source, finding.severity) == ("SYN101", "syncheck", lsp.DiagnosticSeverity.Error)
        start, end = finding.range.start, finding.range.end
        assert (start.line, start.character, end.line, end.character) == (6, 14, 6, 19)  # in UTF-16 units
        assert "wait_stream" in finding.message
        assert finding.code_description.href.endswith("/rules/SYN101/")
        (related,) = finding.related_information
        assert related.location.range.start.line == 4
        editor.type(BAD.replace("with", "side.wait_stream(torch.cuda.current_stream())\nwith"))
        assert await editor.diagnostics() == []
        editor.type("import torch\nx = (")  # not valid Python while typing
        editor.type(BAD)
        assert len(await editor.diagnostics()) == 1
        editor.client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(editor.uri)))
        assert await editor.diagnostics() == []

    in_editor(use)


def test_hover_shows_the_rule(in_editor):
    async def use(editor):
        editor.open(BAD + "# syncheck: ignore[SYN201]\n")
        await editor.diagnostics()
        found = await editor.hover(6, 15)
        assert found.contents.value.startswith("# SYN101 unordered-read")
        assert (await editor.hover(7, 3)).contents.value.startswith("# SYN201")
        assert await editor.hover(0, 0) is None

    in_editor(use)


def test_quick_fixes_fix_or_suppress_a_finding(in_editor):
    async def use(editor):
        editor.open(BAD)
        (finding,) = await editor.diagnostics()
        repair, silence = await editor.actions(finding, lsp.CodeActionKind.QuickFix)
        assert repair.is_preferred
        assert "wait_stream" in repair.title
        assert "ignore" in silence.title
        for action in (repair, silence):
            text = changed(BAD, action.edit, editor.uri)
            editor.type(text)
            assert await editor.diagnostics() == []
        assert "# syncheck: ignore[SYN101]" in text
        editor.type(BAD)
        await editor.diagnostics()
        (everything,) = await editor.actions(finding, lsp.CodeActionKind.SourceFixAll)
        editor.type(changed(BAD, everything.edit, editor.uri))
        assert await editor.diagnostics() == []
        assert await editor.actions(finding, lsp.CodeActionKind.SourceFixAll) == []

    in_editor(use)


def test_fix_all_is_offered_only_where_it_is_asked_for(in_editor):
    async def use(editor):
        editor.open(BAD)
        (finding,) = await editor.diagnostics()
        kinds = {action.kind for action in await editor.actions(finding)}
        assert kinds == {lsp.CodeActionKind.QuickFix}
        (everything,) = await editor.actions(finding, "source")
        assert everything.kind == "source.fixAll.syncheck"

    in_editor(use)


def test_the_linter_never_runs_in_two_threads(tmp_path, monkeypatch):
    """It changes settings of the process, such as the recursion limit."""
    running, most = [], []

    def lint(*_, **__):
        running.append(1)
        most.append(len(running))
        time.sleep(0.05)
        running.pop()
        return Result()

    monkeypatch.setattr(server_module, "_lint", lint)
    server = server_module.make_server()
    server.protocol._workspace = Workspace(tmp_path.as_uri())
    uris = [(tmp_path / f"{number}.py").as_uri() for number in range(4)]
    for uri in uris:
        server.workspace.put_text_document(lsp.TextDocumentItem(uri, "python", 0, BAD))
    monkeypatch.setattr(server, "_publish", lambda *_: None)

    async def use():
        await asyncio.gather(*map(server.lint, uris))

    asyncio.run(use())
    assert most == [1] * 4


def test_a_suppression_goes_to_the_end_of_a_multiline_statement(in_editor):
    async def use(editor):
        text = BAD.replace('y = "🔥", x * 2', "y = x * 2 \\\n        + 1")
        editor.open(text)
        (finding,) = await editor.diagnostics()
        _, silence = await editor.actions(finding, lsp.CodeActionKind.QuickFix)
        silenced = changed(text, silence.edit, editor.uri)
        assert "+ 1  # syncheck: ignore[SYN101]" in silenced
        editor.type(silenced)
        assert await editor.diagnostics() == []

    in_editor(use)


def test_changed_settings_take_effect(in_editor, tmp_path):
    async def use(editor):
        editor.open(BAD)
        assert len(await editor.diagnostics()) == 1
        (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nignore = ["SYN1"]\n')
        editor.type(BAD)
        assert await editor.diagnostics() == []

    in_editor(use)


def test_the_projects_settings_apply(in_editor, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nignore = ["SYN1"]\n')

    async def use(editor):
        editor.open(BAD)
        assert await editor.diagnostics() == []

    in_editor(use)


def test_invalid_settings_are_reported(in_editor, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.syncheck]\nselekt = []\n")

    async def use(editor):
        editor.open(BAD)
        message = await asyncio.wait_for(editor.messages.get(), SECONDS)
        assert "did you mean select?" in message.message

    in_editor(use)


def test_a_path_may_contain_spaces_and_percent_signs(in_editor):
    async def use(editor):
        editor.open(BAD)
        (finding,) = await editor.diagnostics()
        assert len(await editor.actions(finding, lsp.CodeActionKind.QuickFix)) == 2

    in_editor(use, "my train %20 ü.py")
