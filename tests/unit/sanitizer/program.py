"""A program as plain calls, and call sites within a text, for tests of the sanitizer."""

from syncheck.findings import Frame, Location
from syncheck.hb.engine import Engine
from syncheck.sanitizer.collector import Collector
from syncheck.sanitizer.messages import StreamInfo
from syncheck.sanitizer.monitor import SourceLine
from syncheck.sanitizer.session import Session
from syncheck.source.scopes import scopes_of


class Program:
    """A program under test: `site` numbers are its line numbers, allocations are 1024 float32."""

    def __init__(self, streams=2, devices=1, selected=lambda _: True):
        self.session = Session(selected, "no GPU")
        self.next_id = 100
        for index in range(streams):
            device = index % devices
            is_default = index < devices
            self.session.stream(index + 1, device, 0 if is_default else index, 0, legacy=is_default, blocking=False)
        self.view = self.session.view(0, (1024,), (1,), 4, "float32")

    def new_id(self):
        self.next_id += 1
        return self.next_id

    def allocate(self, stream, line=0):
        ident = self.new_id()
        self.session.allocate(ident, stream, 4096, 0, line)
        return ident

    def write(self, stream, allocation, line, **kwargs):
        self.session.launch(stream, "aten::mul_", [(allocation, self.view, True)], line, **kwargs)

    def read(self, stream, allocation, line, **kwargs):
        self.session.launch(stream, "aten::sum", [(allocation, self.view, False)], line, **kwargs)

    def host(self, allocation, line, *, is_write=False, **kwargs):
        self.session.host_access("Tensor.tolist()", [(allocation, self.view, is_write)], line, **kwargs)

    def event(self, *, timing=False):
        ident = self.new_id()
        self.session.event(ident, 0, timing=timing)
        return ident

    def location(self, site):
        return Location(Frame("program.py", site, source=f"line {site}"))

    def lines_of(self, site):
        return (SourceLine("program.py", site),)

    def bound(self, site):
        return ""

    def ignored(self, site, rule):
        return False

    def ignored_codes(self, site):
        return []

    def report(self):
        return self.session.report(self)

    def found(self):
        return [(f.rule.code, f.location.frame.line) for f in self.report().findings]


class Text:
    """Call sites in a text: a site number is a line, counted from 1, unless `at_line` maps it to another.

    `columns` has the columns of lines, `spans` the first and last columns of locations, `callers` the lines that
    call a line, and `functions` the functions of sites that are in another function.
    """

    path = "program.py"

    def __init__(self, text="", bound=None, callers=None, readable=True, stacks=None):
        self.lines = text.splitlines()
        self.scopes = scopes_of(text) if readable else None
        self.names = bound or {}
        self.callers = callers or {}
        self.ignored_sites = {}
        self.stacks = stacks or {}
        self.at_line = {}
        self.functions = {}
        self.columns = {}
        self.spans = {}

    def line(self, number):
        function = ""
        for text in self.lines[:number]:
            if text.startswith("def "):
                function = text[4:].partition("(")[0]
            elif text and not text[0].isspace():
                function = ""
        return SourceLine(self.path, number, self.columns.get(number, 0), function or "<module>", self.scopes)

    def lines_of(self, site):
        own = self.line(self.at_line.get(site, site))
        own = own._replace(function=self.functions.get(site, own.function))
        return (own, *map(self.line, self.callers.get(site, ())))

    def location(self, site):
        number = self.at_line.get(site, site)
        source = self.lines[number - 1] if 0 < number <= len(self.lines) else ""
        first, last = self.spans.get(site, (0, 0))
        frame = Frame(self.path, number, first, number, last, source=source)
        return Location(frame, stack=self.stacks.get(site, ()))

    def bound(self, site):
        return self.names.get(site, "")

    def ignored(self, site, rule):
        return rule.code in self.ignored_codes(site)

    def ignored_codes(self, site):
        return self.ignored_sites.get(site, [])


def new_engine(n_streams, collector=None, devices=1):
    """Return an engine with streams, the default ones first, which the collector gets as well."""
    engine = Engine()
    for index in range(n_streams):
        is_default = index < devices
        stream = engine.add_stream(index % devices, is_legacy=is_default)
        if collector is not None:
            site = 0 if is_default else 100 + stream
            collector.names.streams[stream] = StreamInfo(index % devices, 0 if is_default else index, site)
    return engine


def new_collector():
    return Collector(lambda rule: True)


def found(collector, sites=None):
    """Return (code, line, count) of each finding."""
    findings = collector.findings(sites or Text())
    return [(finding.rule.code, finding.location.frame.line, finding.count) for finding in findings]
