"""The use cases: run a program, replay a trace, lint files, list and explain rules. Data in, Report out.

What only some commands need is imported where it is used: `--help` and `rules` answer at once.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from syncheck import __version__
from syncheck.config.options import Options
from syncheck.config.settings import Layer, options_for, options_in, origins
from syncheck.errors import BackendError, ConfigError
from syncheck.filters.policy import Policy, baseline_of, is_distributed, known_left_out, looking_at, truncate
from syncheck.findings import Report
from syncheck.ranks import rendezvous
from syncheck.ranks.merging import merge as merge_parts
from syncheck.rules.model import Rule
from syncheck.run.process import NOTHING_SEEN, make_run, new_session, run_ranks, shown
from syncheck.run.spawned import sender

if TYPE_CHECKING:
    from syncheck.lint.engine import Outcome
    from syncheck.run.launcher import Program

_NO_FILES = "there is no Python file: nothing was checked"


def halves(rule: Rule) -> frozenset[str]:
    """Return which halves of syncheck report a rule: "run", "lint"."""
    from syncheck.lint.analysis import RULES as LINTED  # noqa: PLC0415
    from syncheck.ranks.compare import RULES as COMPARED  # noqa: PLC0415
    from syncheck.sanitizer.session import RULES  # noqa: PLC0415

    return frozenset({"run"} if rule in (*RULES, *COMPARED) else ()) | frozenset({"lint"} if rule in LINTED else ())


def run(program: "Program", options: Options, deliver: Callable[[Report], int], arguments: tuple[str, ...] = ()) -> int:
    """Run a program under the sanitizer.

    Args:
        program: what to run.
        options: how.
        deliver: prints a report and returns the exit status that it calls for.
        arguments: the settings of the command line as they are written there, for ranks that the program starts.

    Returns:
        The exit status: the program's own if it failed, else that of the report.

    Raises:
        ScriptError: the program cannot be read or compiled.
        ConfigError: a rule name that does not exist.
        BackendError: there is no torch, or no backend for it.
    """
    from syncheck.run import launcher  # noqa: PLC0415

    policy = Policy(options, _silences_lint)
    options.selected()
    prepared = launcher.load(program)
    if options.nproc and rendezvous.PARTS not in os.environ:
        return run_ranks(options, policy, deliver)
    member = rendezvous.begin(options.ranks_dir)
    member.arguments, member.for_spawned = arguments, sender(member, options)
    checked = make_run(options, deliver, policy)
    if options.hang_timeout and is_distributed():
        member.on_join()  # already the first call, which makes the process group, may hang
    return checked.run(prepared)


def _silences_lint(path: str, line: int) -> bool:
    """Tell whether the comment at a line of a file silences what the linter finds."""
    from syncheck.lint import engine  # noqa: PLC0415  only for comments that a run has no use for
    from syncheck.lint.prefilter import can_matter  # noqa: PLC0415

    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return can_matter(data) and all(line != unused for unused, _ in engine.lint_data(path, data).unused)


def merge(folders: tuple[Path, ...], options: Options) -> Report:
    """Merge what the ranks of a job have written into folders.

    Raises:
        RecordError: there is nothing that can be merged.
        ConfigError: a rule name that does not exist.
    """
    return shown(merge_parts(folders), Policy(options))


def replay(path: Path, options: Options) -> Report:
    """Replay a trace and return its findings.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: a rule name that does not exist.
    """
    from syncheck.run.trace import codec  # noqa: PLC0415

    policy = Policy(options)
    return policy.finalize(policy.filter(codec.replay(path, lambda backend: new_session(options, backend))))


def _unseen(done: int, of: int) -> None:
    del done, of


@dataclass(frozen=True, slots=True)
class LintRequest:
    """What to lint, and what to do with it.

    Attributes:
        paths: files and folders; "-" for standard input.
        given: the settings of the command line; those of the files' own pyproject.toml count besides.
        stdin: the text of standard input, and its name.
        change: "" to report, "fix" or "ignore" to change the files, "diff" to show how `fix` would.
        unsafe: repairs that make the host wait are wanted, too.
        cache: folder of the cache; None for none.
        progress: called with (done, all) now and then.
    """

    paths: tuple[str, ...]
    given: Layer = ()
    stdin: tuple[bytes, str] = (b"", "stdin.py")
    change: str = ""
    unsafe: bool = False
    cache: Path | None = None
    progress: Callable[[int, int], None] = _unseen


def lint_files(request: LintRequest) -> list[str]:
    """Return the files that a request is about.

    Raises:
        ConfigError: a path does not exist, or the settings are wrong.
    """
    from syncheck.lint import files  # noqa: PLC0415

    return list(files.discover(request.paths, lambda path: options_for(path, request.given)))


def lint(request: LintRequest) -> tuple[Report, str]:
    """Lint files; return the report, and the changes as a unified diff where they were only to be shown.

    Raises:
        ConfigError: a path does not exist, a rule does not, or the settings are wrong.
    """
    from syncheck.lint import engine  # noqa: PLC0415
    from syncheck.lint.cache import Cache  # noqa: PLC0415
    from syncheck.lint.fixes import changes  # noqa: PLC0415

    def options_of(path: str) -> Options:
        return options_for(path, request.given)

    options = options_in("", request.given, command="lint")
    options.selected()  # wrong names are told before anything is done
    baseline = baseline_of(options)
    diff = ""
    if request.paths == ("-",):
        data, name = request.stdin
        paths = [name]
        outcome = engine.Outcome({name: engine.lint_data(name, data)}, 1)
    else:
        paths = lint_files(request)
        if request.change:
            diff = changes.change(paths, request.change, options_of, unsafe=request.unsafe)
        outcome = engine.lint(paths, Cache(request.cache), request.progress)
    report = engine.report_of(outcome, options_of)
    if baseline is not None:
        linted = {baseline.relative(path) for path in paths if not _problem_of(outcome, path)}

        def is_seen(path: str) -> bool:
            file = path.partition(":cell ")[0]
            return file in linted or not os.path.exists(os.path.join(baseline.path.parent, file))

        looked_at = looking_at("lint", baseline, options_of, is_seen)
        report = known_left_out(report, baseline, options, looked_at, is_certain=True)
    report = truncate(report, options.max_findings)
    return report if paths else replace(report, incomplete=(_NO_FILES,)), diff


def _problem_of(outcome: "Outcome", path: str) -> str:
    """Return why a file could not be linted; "" if it could."""
    result = outcome.results.get(path)
    return result.problem if result is not None else ""


def statistics(report: Report) -> list[str]:
    """Return one line a rule that found anything: number, code, name."""
    counts = Counter(finding.rule for finding in report.findings)
    return [f"{number:>6}  {rule.code}  {rule.name}" for rule, number in counts.most_common()]


def stamps(request: LintRequest) -> dict[str, int]:
    """Return when each file of a request was changed last."""
    return {path: os.stat(path).st_mtime_ns for path in lint_files(request) if os.path.exists(path)}


def render(report: Report, options: Options, *, color: bool) -> str:
    """Return a report in the chosen format."""
    from syncheck.report import concise, github, gitlab, junit, sarif, structured, text  # noqa: PLC0415

    renderers: dict[str, Callable[[], str]] = {
        "json": lambda: structured.render_json(report, version=__version__),
        "sarif": lambda: sarif.render(report, version=__version__),
        "concise": lambda: concise.render(report),
        "github": lambda: github.render(report),
        "gitlab": lambda: gitlab.render(report),
        "junit": lambda: junit.render(report),
        "text": lambda: text.render(report, color=color, stacks=options.stacks, full=options.third_party == "full"),
    }
    return renderers[options.output_format]()


def status_of(report: Report, options: Options) -> int:
    """Return the exit status that a report calls for: 0 clean, 1 findings, 3 nothing could be checked."""
    if report.failing(options.fail_on):
        return 1
    return 3 if {NOTHING_SEEN, _NO_FILES} & set(report.incomplete) else 0


def rule_table() -> list[dict[str, object]]:
    """Return one entry a rule: code, name, level, halves, summary."""
    from syncheck.rules import catalogue  # noqa: PLC0415

    return [
        {
            "code": rule.code,
            "name": rule.name,
            "level": rule.severity.value,
            "halves": sorted(halves(rule)),
            "summary": rule.summary,
        }
        for rule in catalogue.CATALOGUE
    ]


def rule_page(name: str) -> str:
    """Return a rule's page as Markdown.

    Raises:
        ConfigError: no rule has this code or name; the hint names the nearest.
    """
    from syncheck.rules import catalogue, page  # noqa: PLC0415

    rule = catalogue.find(name)
    return page.markdown(rule, halves(rule))


def settings_of(path: str) -> list[tuple[str, str, str]]:
    """Return each setting, its value for a file or a folder as TOML would have it, and where that comes from.

    Raises:
        ConfigError: there is no such path, or its settings are wrong.
    """
    if not os.path.exists(path):
        raise ConfigError(f"there is no file or folder {path!r}", "name one whose settings are wanted")
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return [(setting.key, _as_toml(value), origin) for setting, value, origin in origins(folder)]


def _as_toml(value: object) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_as_toml(names)}" for key, names in value) + " }"
    return "" if value is None else json.dumps(value, default=str)


def torch_in_short() -> str:
    """Return torch's version, its CUDA, and the backend that `auto` chooses, without importing torch if it can."""
    import importlib.util  # noqa: PLC0415
    import runpy  # noqa: PLC0415

    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "no torch; lint, replay and rules work without it"
    found = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
    cuda = found.get("cuda")
    backend = "sim"
    if cuda is not None:
        from syncheck.run import backends  # noqa: PLC0415  it imports torch, which alone knows whether there is a GPU

        backend = dict(backends.doctor())["backend chosen by auto"]
    return f"torch {found['__version__']}, {f'CUDA {cuda}' if cuda else 'no CUDA'}, backend {backend}"


def doctor() -> list[tuple[str, str]]:
    """Return what this machine offers: (what, finding) pairs."""
    rows = [("syncheck", __version__), ("python", sys.version.split()[0])]
    try:
        import importlib.util  # noqa: PLC0415

        if importlib.util.find_spec("torch") is None:
            return [
                *rows,
                ("torch", "missing: pip install 'torch>=2.8'; without it nothing can be run or replayed live"),
            ]
        from syncheck.run import backends  # noqa: PLC0415

        rows.extend(backends.doctor())
    except BackendError as error:
        rows.append(("torch", f"{error}; {error.hint}"))
    rows.append(("working directory", os.getcwd()))
    return rows
