"""No input crashes syncheck: it is either read or rejected with a one-line message that names it."""

import ast
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncheck.config.options import FORMATS, Options
from syncheck.config.settings import options_in
from syncheck.errors import ConfigError, RecordError, SyncheckError, TraceError
from syncheck.filters.baseline import Baseline
from syncheck.findings import Report
from syncheck.lint.cache import Cache, digest_of
from syncheck.lint.engine import lint_data
from syncheck.lint.fixes.codemods import apply
from syncheck.ranks import merging
from syncheck.report.render import render
from syncheck.run.trace.replaying import replay
from syncheck.sanitizer.session import Session
from syncheck.system import files
from tests.fuzz.mutations import damaged_bytes, damaged_json, damaged_source
from tests.ranks.test_damaged_records import job  # noqa: F401  a fixture

EXAMPLES = os.environ.get("SYNCHECK_FUZZ_EXAMPLES")  # of each kind; set by `make fuzz`, which also passes a seed
fuzzed = settings(
    max_examples=int(EXAMPLES or 30),
    derandomize=EXAMPLES is None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for kind in ("lint", "rules", "sim") for path in (ROOT / "tests" / kind).rglob("programs/*.py"))
SOURCES += sorted((ROOT / "fixtures").glob("*/*.py"))
TRACES = sorted((ROOT / "fixtures/traces").glob("*.trace.gz"))
SETTINGS = """\
[tool.syncheck]
select = ["SYN1", "SYN201"]
ignore = ["SYN101"]
fail-on = "warning"
devices = 2
baseline = "known.json"
steps = "1:2"
hang-timeout = 20.0
exclude = ["build"]

[tool.syncheck.per-file-ignores]
"tests/*" = ["SYN2"]
"""
SOURCE = b"""\
import torch
s = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(s):
    y = x * 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def result_of(action: Callable[[], Any], error: type[SyncheckError], name: str = "") -> Any:
    """Return the result of an action, or None if it is rejected with a one-line message that contains a name."""
    try:
        return action()
    except error as refusal:
        line = str(refusal)
    assert name in line
    assert "\n" not in line
    return None


def check_replay(path: Path) -> None:
    report = result_of(lambda: replay([path], _session), TraceError, path.name)
    assert report is None or rendered(report)


def _session(backend: str) -> Session:
    return Session(lambda rule: True, backend)


def rendered(report: Report) -> bool:
    """Return whether a report can be written in each format."""
    return all(
        render(report, Options(output_format=kind), color=False).encode("utf-8", "surrogateescape") is not None
        for kind in FORMATS
    )


def recorded(data: st.DataObject) -> list[object]:
    path = data.draw(st.sampled_from(TRACES), label="trace")
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@fuzzed
@given(data=st.data())
def test_traces_with_damaged_bytes_are_read_or_rejected(folder, data):
    (folder / "bytes.trace").write_bytes(data.draw(damaged_bytes(data.draw(st.sampled_from(TRACES)).read_bytes())))
    check_replay(folder / "bytes.trace")


@fuzzed
@given(data=st.data())
def test_traces_with_damaged_values_are_read_or_rejected(folder, data):
    records = recorded(data)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(records) - 1))
        records[at] = data.draw(damaged_json(records[at]))
    (folder / "values.trace").write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    check_replay(folder / "values.trace")


@fuzzed
@given(data=st.data())
def test_traces_with_shuffled_records_are_read_or_rejected(folder, data):
    head, *records = recorded(data)
    records = data.draw(st.permutations(records[: data.draw(st.integers(1, 60))]))
    (folder / "order.trace").write_bytes(gzip.compress("\n".join(map(json.dumps, [head, *records])).encode()))
    check_replay(folder / "order.trace")


@fuzzed
@given(data=st.data())
def test_damaged_records_of_ranks_are_merged_or_rejected(tmp_path_factory, job, data):  # noqa: F811  the fixture
    place = tmp_path_factory.mktemp("ranks")
    for name, content in job.items():
        (place / name).write_bytes(content)
    for name in data.draw(st.lists(st.sampled_from(sorted(job)), min_size=1, max_size=3, unique=True)):
        (place / name).write_bytes(data.draw(damaged_bytes(job[name])))
    merged = result_of(lambda: merging.merge([place]), RecordError, str(place))
    assert merged is None or rendered(merged.report)


@fuzzed
@given(data=st.data())
def test_damaged_baselines_are_read_or_rejected(folder, data):
    finding = lint_data("a.py", SOURCE).findings
    path = folder / "known.json"
    path.unlink(missing_ok=True)
    baseline = Baseline(path)
    baseline.replace(finding, lambda entry: True)
    baseline.write()
    whole = path.read_bytes()
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(damaged_bytes(whole)))
    else:
        path.write_text(json.dumps(data.draw(damaged_json(json.loads(whole)))))
    read = result_of(lambda: Baseline.read(path), ConfigError, path.name)
    assert read is None or set(read.new(finding)) <= set(finding)


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """Return a cached source file, its cache file, and the contents of the cache file."""
    place = tmp_path_factory.mktemp("cache")
    (place / "a.py").write_bytes(SOURCE)
    cache = Cache(place / "cache")
    path = str(place / "a.py")
    cache.keep(path, files.stamp(path), digest_of(SOURCE), lint_data(path, SOURCE))
    cache.save()
    (file,) = (place / "cache").glob("*.cache")
    return place / "a.py", file, file.read_bytes()


@fuzzed
@given(data=st.data())
def test_damaged_lint_caches_are_ignored(cached, data):
    source, file, whole = cached
    damaged = data.draw(damaged_bytes(whole))
    file.write_bytes(damaged)
    found = Cache(file.parent).find(str(source))
    assert (found is not None) == (damaged == whole)


@fuzzed
@given(data=st.data())
def test_damaged_settings_are_read_or_rejected(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("settings")
    (place / "pyproject.toml").write_bytes(data.draw(damaged_bytes(SETTINGS.encode())))
    result_of(lambda: options_in(str(place), command="").selected(), ConfigError)


@fuzzed
@given(data=st.data())
def test_sources_with_damaged_bytes_do_not_crash_the_linter(data):
    whole = data.draw(st.sampled_from(SOURCES)).read_bytes()
    result = lint_data("a.py", data.draw(damaged_bytes(whole)))
    assert "itself failed" not in result.problem
    assert "please report" not in result.problem


@fuzzed
@given(data=st.data())
def test_mutated_programs_do_not_crash_the_linter_and_fixes_parse(data):
    """The linter does not crash, and its fixes leave a program that parses."""
    source = data.draw(damaged_source(data.draw(st.sampled_from(SOURCES)).read_text()))
    result = lint_data("a.py", source.encode())
    assert "itself failed" not in result.problem
    edits = [edit for finding in result.findings if finding.fix is not None for edit in finding.fix.edits]
    if edits:
        changed, _ = apply(source, edits)
        ast.parse(changed)
        assert "itself failed" not in lint_data("a.py", changed.encode()).problem
