"""A language server: findings as you type, a rule's page on hover, quick fixes.

Source:
    Language Server Protocol 3.17; pygls.
"""

import asyncio
import difflib
import re
from collections.abc import Iterator, Sequence

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from syncheck.commands.rules import rule_page
from syncheck.config.settings import forget, options_for
from syncheck.errors import ConfigError
from syncheck.findings import Applicability, Finding, Place
from syncheck.lint import engine, files
from syncheck.lint.fixes.repair import repair, repaired, with_ignore
from syncheck.rules.catalogue import all_rules, url_of
from syncheck.rules.model import Severity
from syncheck.version import __version__

_PAUSE = 0.2
"""Seconds without a key until a text is linted."""
_LEVELS = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.ADVICE: lsp.DiagnosticSeverity.Information,
}
_KINDS = (lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll)


class Server(LanguageServer):
    """Lints the open documents.

    Attributes:
        findings: uri -> (version of the document, what was found in it).
    """

    def __init__(self) -> None:
        super().__init__("syncheck", __version__)
        self.findings: dict[str, tuple[int | None, tuple[Finding, ...]]] = {}
        self._told = ""

    async def lint_soon(self, uri: str) -> None:
        """Lint a document, unless it is changed again at once."""
        version = self.workspace.get_text_document(uri).version
        await asyncio.sleep(_PAUSE)
        document = self.workspace.get_text_document(uri)
        if uri in self.workspace.text_documents and document.version == version:
            await self.lint(document)

    async def lint(self, document: TextDocument) -> None:
        """Lint a document and publish what was found; a text that is no Python keeps what it had."""
        version, source = document.version, document.source
        path = to_fs_path(document.uri) or document.uri
        try:
            forget()
            options = options_for(path)
            codes = options.codes_for(path)
        except ConfigError as error:
            self._tell(f"{error}; {error.hint}")
            return
        data = source.encode("utf-8", "surrogatepass")
        result = await asyncio.to_thread(engine.lint_data, path, data, is_strict=options.strict)
        is_closed = document.uri not in self.workspace.text_documents
        if result.problem or is_closed or document.version != version:
            return
        found = tuple(finding for finding in result.findings if finding.rule.code in codes)
        self.findings[document.uri] = version, found
        shown = [self._diagnostic(document, finding) for finding in found]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(document.uri, shown, version))

    def forget(self, uri: str) -> None:
        """A document was closed."""
        self.findings.pop(uri, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def document(self, identifier: lsp.TextDocumentIdentifier) -> TextDocument:
        """Return an open document."""
        return self.workspace.get_text_document(identifier.uri)

    def hover(self, document: TextDocument, position: lsp.Position) -> lsp.Hover | None:
        """Return the pages of the rules that found something at a place, or that its line names."""
        line = document.lines[position.line] if position.line < len(document.lines) else ""
        codes = [finding.rule.code for finding in self.found_at(document, lsp.Range(position, position))]
        known = [rule for rule in all_rules() if rule.code in {*codes, *re.findall(r"[A-Z][A-Z_]*\d+", line)}]
        pages = "\n---\n".join(rule_page(rule.code) for rule in known)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, pages)) if pages else None

    def code_actions(
        self, document: TextDocument, wanted: lsp.Range, kinds: Sequence[lsp.CodeActionKind | str]
    ) -> Iterator[lsp.CodeAction]:
        """Yield what can be done about the findings in a range, and about all."""
        if lsp.CodeActionKind.QuickFix in kinds:
            for finding in self.found_at(document, wanted):
                yield from self.actions(document, finding)
        if any(kind.startswith("source") for kind in kinds):
            repaired = self.all_repaired(document)
            if repaired is not None:
                yield repaired

    def found_at(self, document: TextDocument, wanted: lsp.Range) -> Iterator[Finding]:
        """Yield the findings of a document's present text that touch a range."""
        version, found = self.findings.get(document.uri, (None, ()))
        for finding in found if version == document.version else ():
            where = self._range(document, finding.place)
            if where.start.line <= wanted.end.line and wanted.start.line <= where.end.line:
                yield finding

    def actions(self, document: TextDocument, finding: Finding) -> Iterator[lsp.CodeAction]:
        """Yield what can be done about a finding: a repair, if there is one, and a comment."""
        path, source, code = to_fs_path(document.uri) or document.uri, document.source, finding.rule.code
        diagnostic = self._diagnostic(document, finding)
        fix = finding.fix
        better = None
        if fix is not None and fix.applicability is not Applicability.EXAMPLE:
            better = repaired(path, source, finding)
        if fix is not None and better is not None:
            title = f"{code}: {finding.help.partition(';')[0]}"
            is_safe = fix.applicability is Applicability.SAFE
            yield self._action(document, title, better, diagnostic, is_preferred=is_safe)
        silenced = with_ignore(source, {finding.place.frame.line: {code}})
        yield self._action(document, f"{code}: ignore it here", silenced, diagnostic, is_preferred=False)

    def all_repaired(self, document: TextDocument) -> lsp.CodeAction | None:
        """Return what makes all safe repairs at once; None if there is none."""
        path = to_fs_path(document.uri) or document.uri
        try:
            codes = options_for(path).codes_for(path)
        except ConfigError:  # reported when the text was linted
            return None
        fixed = repair(path, document.source, unsafe=False, codes=codes)
        if not fixed.findings:
            return None
        kind = f"{lsp.CodeActionKind.SourceFixAll.value}.syncheck"
        return lsp.CodeAction("syncheck: fix all", kind=kind, edit=self._edit(document, fixed.source))

    def _action(
        self, document: TextDocument, title: str, text: str, diagnostic: lsp.Diagnostic, *, is_preferred: bool
    ) -> lsp.CodeAction:
        edit = self._edit(document, text)
        return lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, [diagnostic], is_preferred, edit=edit)

    def _edit(self, document: TextDocument, text: str) -> lsp.WorkspaceEdit:
        """Return the lines that make a document this text."""
        before, after = files.lines_of(document.source), files.lines_of(text)
        edits = [
            lsp.TextEdit(lsp.Range(lsp.Position(start, 0), lsp.Position(stop, 0)), "".join(after[first:last]))
            for tag, start, stop, first, last in difflib.SequenceMatcher(None, before, after).get_opcodes()
            if tag != "equal"
        ]
        return lsp.WorkspaceEdit({document.uri: edits})

    def _diagnostic(self, document: TextDocument, finding: Finding) -> lsp.Diagnostic:
        rule = finding.rule
        related = [
            lsp.DiagnosticRelatedInformation(lsp.Location(document.uri, self._range(document, place)), place.message)
            for place in finding.related
        ]
        return lsp.Diagnostic(
            self._range(document, finding.place),
            "\n".join(filter(None, (finding.message, finding.help))),
            _LEVELS[finding.level],
            rule.code,
            lsp.CodeDescription(url_of(rule)) if url_of(rule) else None,
            "syncheck",
            related_information=related,
        )

    def _range(self, document: TextDocument, place: Place) -> lsp.Range:
        frame = place.frame
        start = self._position(document, frame.line, frame.column or 1)
        end = self._position(document, frame.end_line or frame.line, frame.end_column or frame.column or 1)
        return lsp.Range(start, end)

    def _position(self, document: TextDocument, line: int, column: int) -> lsp.Position:
        """Turn a line and a column in characters, from 1, into a position in the client's units."""
        text = document.lines[line - 1] if line <= len(document.lines) else ""
        return lsp.Position(max(line - 1, 0), self.workspace.position_codec.client_num_units(text[: column - 1]))

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, f"syncheck: {text}"))


def make_server() -> Server:
    """Return a server that knows what it can be asked."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        await server.lint(server.workspace.get_text_document(params.text_document.uri))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        await server.lint_soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        return server.hover(server.document(params.text_document), params.position)

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=_KINDS))
    def asked(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        wanted = params.context.only or _KINDS
        return list(server.code_actions(server.document(params.text_document), params.range, wanted))

    return server


def serve() -> None:
    """Serve an editor on standard input and output, until it says goodbye."""
    make_server().start_io()
