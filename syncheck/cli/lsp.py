"""Language server: findings as you type, rule pages on hover, quick fixes.

Source:
    Language Server Protocol 3.17; pygls.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from syncheck.cli.lsp_documents import OpenDocument, opened
from syncheck.commands.rules import rule_page
from syncheck.config.settings import forget, options_for
from syncheck.errors import ConfigError
from syncheck.findings import Applicability, Finding, Location
from syncheck.lint import engine, files
from syncheck.lint.fixes.repair import repair, repaired, with_ignore
from syncheck.lint.result import Result
from syncheck.rules.catalogue import all_rules, url_of
from syncheck.rules.model import Severity
from syncheck.version import __version__

T = TypeVar("T")
_PAUSE = 0.2
"""Seconds without an edit before a document is linted."""
_LEVELS = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.ADVICE: lsp.DiagnosticSeverity.Information,
}
_KINDS = (lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll)


class _Found(NamedTuple):
    """A finding in the linted text, and the same finding in the editor's document."""

    finding: Finding
    shown: Finding


class Server(LanguageServer):
    """Language server that lints the open documents.

    Attributes:
        findings: URI of a file or notebook -> (its version, its findings).
    """

    def __init__(self) -> None:
        selector = lsp.NotebookDocumentFilterWithNotebook("jupyter-notebook")
        sync = lsp.NotebookDocumentSyncOptions([selector])
        super().__init__("syncheck", __version__, notebook_document_sync=sync)
        self.findings: dict[str, tuple[object, tuple[_Found, ...]]] = {}
        self._last_message = ""
        self._linting = ThreadPoolExecutor(1)  # only one file at a time: the linter changes settings of the process

    def opened(self, uri: str) -> OpenDocument:
        """Return the file or notebook for a URI, which may be that of a cell."""
        return opened(self.workspace, uri)

    async def lint_soon(self, uri: str) -> None:
        """Lint a document after a pause, unless it has changed again by then."""
        version = self.opened(uri).version
        await asyncio.sleep(_PAUSE)
        if self._is_open(uri) and self.opened(uri).version == version:
            await self.lint(uri)

    def _is_open(self, uri: str) -> bool:
        """Return whether a file or notebook is open; pygls stores files under their unquoted URI."""
        workspace = self.workspace
        return unquote(uri) in workspace.text_documents or workspace.get_notebook_document(notebook_uri=uri) is not None

    async def lint(self, uri: str) -> None:
        """Lint a document and publish its findings; if it does not parse, its previous findings stay."""
        document = self.opened(uri)
        try:
            forget()
            options = options_for(document.path)
            codes = options.codes_for(document.path)
        except ConfigError as error:
            self._show_message(f"{error}; {error.hint}")
            return
        result = await self._in_thread(lambda: _lint(document, is_strict=options.strict))
        if result.problem or not self._is_open(uri) or self.opened(uri).version != document.version:
            return
        found = tuple(finding for finding in result.findings if finding.rule.code in codes)
        self.findings[document.uri] = document.version, tuple(_Found(f, document.map_to_parts(f)) for f in found)
        for part in document.parts():
            shown = [self._diagnostic(document, finding) for finding in self._found_in(document, part)]
            self._publish(part.uri, shown, part.version)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Lint or fix a document while the server answers other requests."""
        return await asyncio.get_running_loop().run_in_executor(self._linting, work)

    def _publish(self, uri: str, shown: list[lsp.Diagnostic], version: int | None = None) -> None:
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown, version))

    def forget(self, uri: str, *cells: str) -> None:
        """Clear the findings of a closed file, of a closed notebook with these cells, or of removed cells."""
        self.findings.pop(uri, None)
        for closed in cells or (uri,):
            self._publish(closed, [])

    def hover(self, uri: str, position: lsp.Position) -> lsp.Hover | None:
        """Return the pages of the rules that have findings at a position or that its line names."""
        lines = self.workspace.get_text_document(uri).lines
        line = lines[position.line] if position.line < len(lines) else ""
        found = self._found_at(self.opened(uri), uri, lsp.Range(position, position))
        codes = {each.finding.rule.code for each in found}
        known = [rule for rule in all_rules() if rule.code in {*codes, *re.findall(r"[A-Z][A-Z_]*\d+", line)}]
        pages = "\n---\n".join(rule_page(rule.code) for rule in known)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, pages)) if pages else None

    async def code_actions(
        self, uri: str, wanted: lsp.Range, kinds: Sequence[lsp.CodeActionKind | str]
    ) -> list[lsp.CodeAction]:
        """Return the code actions for the findings in a range, and for the whole document if they are asked for."""
        document = self.opened(uri)
        found = list(self._found_at(document, uri, wanted)) if lsp.CodeActionKind.QuickFix in kinds else []
        actions: list[lsp.CodeAction] = []
        if found:
            actions += await self._in_thread(lambda: [a for each in found for a in self._actions(document, each)])
        if any(kind.startswith("source") for kind in kinds):
            fix_all = await self._in_thread(lambda: self._fix_all_action(document))
            actions += [fix_all] if fix_all is not None else []
        return actions

    def _found_in(self, document: OpenDocument, part: TextDocument) -> Iterator[_Found]:
        """Yield the findings in one part of a document's current text."""
        version, found = self.findings.get(document.uri, (None, ()))
        for each in found if version == document.version else ():
            if document.part_of(each.shown.location.frame).uri == part.uri:
                yield each

    def _found_at(self, document: OpenDocument, uri: str, wanted: lsp.Range) -> Iterator[_Found]:
        """Yield the findings that touch a range of the part with the given URI."""
        for part in document.parts():
            for each in self._found_in(document, part) if part.uri == uri else ():
                where = self._range(part, each.shown.location)
                if where.start.line <= wanted.end.line and wanted.start.line <= where.end.line:
                    yield each

    def _actions(self, document: OpenDocument, found: _Found) -> Iterator[lsp.CodeAction]:
        """Yield the code actions for a finding: its fix, if there is one, and an ignore comment."""
        finding, code = found.finding, found.finding.rule.code
        diagnostic = self._diagnostic(document, found)
        fix = finding.fix
        better = None
        if fix is not None and fix.applicability is not Applicability.EXAMPLE:
            better = repaired(document.path, document.text, finding)
        if fix is not None and better is not None:
            title = f"{code}: {found.shown.help.partition(';')[0]}"
            is_safe = fix.applicability is Applicability.SAFE
            yield self._action(document, title, better, diagnostic, is_preferred=is_safe)
        suppressed, n_comments = with_ignore(document.text, {finding.location.frame.line: {code}})
        if n_comments:
            yield self._action(document, f"{code}: ignore it here", suppressed, diagnostic, is_preferred=False)

    def _fix_all_action(self, document: OpenDocument) -> lsp.CodeAction | None:
        """Return the code action that applies all safe fixes; None if there are none."""
        try:
            codes = options_for(document.path).codes_for(document.path)
        except ConfigError:  # reported when the text was linted
            return None
        fixed = repair(document.path, document.text, unsafe=False, codes=codes)
        if not fixed.findings:
            return None
        kind = f"{lsp.CodeActionKind.SourceFixAll.value}.syncheck"
        edit = lsp.WorkspaceEdit(document.edits(fixed.source))
        return lsp.CodeAction("syncheck: fix all", kind=kind, edit=edit)

    def _action(
        self, document: OpenDocument, title: str, text: str, diagnostic: lsp.Diagnostic, *, is_preferred: bool
    ) -> lsp.CodeAction:
        edit = lsp.WorkspaceEdit(document.edits(text))
        return lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, [diagnostic], is_preferred, edit=edit)

    def _diagnostic(self, document: OpenDocument, found: _Found) -> lsp.Diagnostic:
        finding, rule = found.shown, found.finding.rule
        related = [
            lsp.DiagnosticRelatedInformation(lsp.Location(part.uri, self._range(part, location)), location.message)
            for location in finding.related
            if location.frame.line
            for part in [document.part_of(location.frame)]
        ]
        return lsp.Diagnostic(
            self._range(document.part_of(finding.location.frame), finding.location),
            "\n".join(filter(None, (finding.message, finding.help))),
            _LEVELS[finding.level],
            rule.code,
            lsp.CodeDescription(url_of(rule)) if url_of(rule) else None,
            "syncheck",
            related_information=related,
        )

    def _range(self, part: TextDocument, location: Location) -> lsp.Range:
        frame = location.frame
        start = self._position(part, frame.line, frame.column or 1)
        end = self._position(part, frame.end_line or frame.line, frame.end_column or frame.column or 1)
        return lsp.Range(start, end)

    def _position(self, part: TextDocument, line: int, column: int) -> lsp.Position:
        """Convert a line and a column in characters, both from 1, to a position in the client's units."""
        text = part.lines[line - 1] if line <= len(part.lines) else ""
        return lsp.Position(max(line - 1, 0), self.workspace.position_codec.client_num_units(text[: column - 1]))

    def _show_message(self, text: str) -> None:
        if text != self._last_message:
            self._last_message = text
            self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, f"syncheck: {text}"))


def _lint(document: OpenDocument, *, is_strict: bool) -> Result:
    if not engine.relevance(document.path, document.text.encode("utf-8", "surrogatepass"))[0]:
        return Result()
    return engine.lint_source(document.path, files.Text(document.text), is_strict=is_strict)


def make_server() -> Server:
    """Return a server with all its features registered."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        await server.lint(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        await server.lint_soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        return server.hover(params.text_document.uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=_KINDS))
    async def code_action_requested(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        # "fix all" lints the document several times, too much for each move of the cursor
        wanted = params.context.only or (lsp.CodeActionKind.QuickFix,)
        return await server.code_actions(params.text_document.uri, params.range, wanted)

    _add_notebooks(server)
    return server


def _add_notebooks(server: Server) -> None:
    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenNotebookDocumentParams) -> None:
        await server.lint(params.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeNotebookDocumentParams) -> None:
        structure = params.change.cells.structure if params.change.cells is not None else None
        removed = structure.did_close if structure is not None else None
        if removed:
            server.forget(params.notebook_document.uri, *(cell.uri for cell in removed))
        await server.lint_soon(params.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseNotebookDocumentParams) -> None:
        cells = [cell.uri for cell in params.cell_text_documents]
        if cells:
            server.forget(params.notebook_document.uri, *cells)


def serve() -> None:
    """Serve an editor on standard input and output until it disconnects."""
    make_server().start_io()
