"""The pytest plugin, exercised by running pytest on small test suites."""

import json
import re
import shlex
import textwrap
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from tests import warm

RACE = """
    import pytest
    import torch

    def race():
        side = torch.cuda.Stream()
        x = torch.ones(4, device="cuda")
        with torch.cuda.stream(side):
            return x * 2
"""

ISOLATION = '''
import json, os
import pytest
from _pytest.runner import runtestprotocol

def pytest_addoption(parser):
    parser.addoption("--isolated", action="store_true")

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run each test in a forked process, as pytest-forked does (which does not work with pytest 9.2)."""
    if not item.config.getoption("--isolated"):
        return None
    hook = item.config.hook
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        reports = runtestprotocol(item, log=False)
        data = [hook.pytest_report_to_serializable(config=item.config, report=report) for report in reports]
        with os.fdopen(write, "w") as file:
            json.dump(data, file, default=repr)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        reports = json.load(file)
    os.waitpid(child, 0)
    for data in reports:
        item.ihook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=item.config, data=data))
    return True
'''


@pytest.fixture
def suite(pytester):
    """Return a function that runs a suite in a separate pytest: virtual GPUs replace much of torch in a process."""

    def run(source, *options, settings=""):
        if "-n" in options:
            pytest.importorskip("xdist")
        (pytester.path / "test_suite.py").write_text(textwrap.dedent(RACE) + textwrap.dedent(source))
        asyncio = "asyncio_default_fixture_loop_scope = function" if find_spec("pytest_asyncio") else ""
        (pytester.path / "pytest.ini").write_text(f"[pytest]\n{asyncio}\n{textwrap.dedent(settings)}")
        quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # slow to import and not needed here
        return warm.run("pytest", *quiet, "--syncheck-backend", "sim", *options, folder=pytester.path)

    return run


def last(done):
    return done.stdout.strip().splitlines()[-1]


def test_a_test_with_a_race_fails_with_an_excerpt_and_a_summary(suite):
    done = suite("def test_it():\n    race()\ndef test_other():\n    pass\n", "--syncheck")
    assert "1 failed, 1 passed" in last(done)
    assert "error[SYN101] unordered-read" in done.stdout
    assert "return x * 2" in done.stdout
    assert "1 finding in 1 test: SYN101 1" in done.stdout


def test_no_other_plugin_is_needed(suite):
    others = [
        option for name in ("xdist", "xdist.looponfail", "rerunfailures", "timeout") for option in ("-p", f"no:{name}")
    ]
    done = suite("def test_it():\n    race()\ndef test_other():\n    pass\n", "--syncheck", *others)
    assert "1 failed, 1 passed" in last(done), done.stderr
    assert "1 finding in 1 test: SYN101 1" in done.stdout


def test_nothing_is_checked_without_the_flag(suite):
    assert "SYN101" not in suite("def test_it():\n    race()\n").stdout
    assert "1 passed" in last(suite("def test_it():\n    race()\n", settings="syncheck = true\nsyncheck_ignore = SYN1"))


def test_a_marker_checks_one_test_and_selects_rules(suite):
    done = suite(
        """
        @pytest.mark.syncheck
        def test_bad():
            race()

        @pytest.mark.syncheck(ignore=["SYN1"])
        def test_ignored():
            race()

        @pytest.mark.syncheck(select=["SYN2"])
        def test_selected():
            race()

        @pytest.mark.syncheck(devices=3)
        def test_devices():
            assert torch.cuda.device_count() == 3
        """
    )
    assert "1 failed, 3 passed" in last(done), done.stdout
    assert "FAILED test_suite.py::test_bad" in done.stdout


def test_a_test_can_be_excluded(suite):
    done = suite("@pytest.mark.syncheck(disable=True)\ndef test_it():\n    race()\n", "--syncheck")
    assert "1 passed" in last(done)


def test_findings_are_attributed_to_their_test_including_setup_and_teardown(suite):
    done = suite(
        """
        @pytest.fixture
        def prepared():
            return race()

        @pytest.fixture
        def cleaned():
            yield
            race()

        def test_setup(prepared):
            pass

        def test_teardown(cleaned):
            pass

        def test_clean():
            assert torch.ones(2, device="cuda").sum().item() == 2
        """,
        "--syncheck",
        "-rA",
    )
    assert "FAILED test_suite.py::test_setup" in done.stdout
    assert "ERROR test_suite.py::test_teardown" in done.stdout
    assert "PASSED test_suite.py::test_clean" in done.stdout


def test_tests_do_not_race_with_each_other_and_can_share_wide_fixtures(suite):
    done = suite(
        """
        @pytest.fixture(scope="session")
        def shared():
            return torch.zeros(4, device="cuda"), torch.cuda.Stream()

        @pytest.mark.parametrize("number", range(4))
        def test_it(shared, number):
            tensor, side = shared
            with torch.cuda.stream(side):
                tensor.add_(1) if number % 2 else None
            if not number % 2:
                tensor.add_(1)
        """,
        "--syncheck",
    )
    assert "4 passed" in last(done), done.stdout


def test_the_fixture_checks_blocks(suite):
    done = suite(
        """
        def test_report(syncheck):
            with syncheck.check() as report:
                race()
            assert report.codes == ("SYN101",)

        def test_expected(syncheck):
            with syncheck.expect("SYN101"):
                race()

        def test_missing(syncheck):
            with syncheck.expect("SYN201"):
                torch.ones(2, device="cuda")
        """,
        "--syncheck",
    )
    assert "1 failed, 2 passed" in last(done), done.stdout
    assert "DID NOT REPORT SYN201 (no findings)" in done.stdout


def test_a_finding_fails_a_test_as_an_exception_does(suite, pytester):
    source = """
    @pytest.mark.xfail(reason="known race")
    def test_lenient(): race()
    @pytest.mark.xfail(reason="known race", strict=True)
    def test_strict(): race()
    @pytest.mark.xfail(raises=ZeroDivisionError)
    def test_other(): race()
    """
    done = suite(source, "--syncheck", "--junit-xml", "out.xml")
    assert "1 failed, 2 xfailed" in last(done)
    cases = ElementTree.parse(pytester.path / "out.xml").iter("testcase")
    assert [case[0].get("type") or case[0].text[:13] for case in cases] == [
        "pytest.xfail",
        "pytest.xfail",
        "error[SYN101]",
    ]


def test_each_test_shows_its_own_tensors(suite):
    source = """
    @pytest.mark.parametrize("n", [4, 8])
    def test_race(n):
        side = torch.cuda.Stream()
        x = torch.ones(n, device="cuda")
        with torch.cuda.stream(side):
            x * 2
    """
    done = suite(source, "--syncheck")
    failures = done.stdout.partition("syncheck ====")[0]  # pytest's summary repeats them in CI
    assert re.findall(r"`x` \((\d) float32", failures) == ["4", "8"]


def test_a_failing_test_keeps_its_own_error(suite):
    done = suite("def test_it():\n    race()\n    assert 1 == 2\n", "--syncheck")
    assert "assert 1 == 2" in done.stdout
    assert "error[SYN101]" in done.stdout


def test_unittest_classes_and_junit_xml_are_supported(suite, pytester):
    source = "import unittest\nclass TestIt(unittest.TestCase):\n    def test_it(self):\n        race()\n"
    done = suite(source, "--syncheck", "--junitxml=report.xml")
    assert "1 failed" in last(done)
    tree = ElementTree.parse(pytester.path / "report.xml")
    failure = tree.find(".//failure")
    assert failure is not None
    assert "SYN101" in (failure.text or "")


def test_it_works_with_xdist(suite):
    done = suite("def test_it():\n    race()\ndef test_other():\n    pass\n", "--syncheck", "-n", "2")
    assert "1 failed, 1 passed" in last(done), done.stdout


def test_counts_are_summed_over_all_processes(suite):
    tests = "".join(f"def test_{n}():\n    race()\n" for n in range(4))
    done = suite(tests, "--syncheck", "-n", "2")
    assert "4 findings in 4 tests: SYN101 4" in done.stdout


def test_a_session_without_gpu_work_says_so(suite):
    assert "nothing to check" in suite("def test_it():\n    pass\n", "--syncheck").stdout


def test_values_that_pytest_prints_for_a_failure_are_not_checked(suite):
    source = """
        def test_it():
            with torch.cuda.stream(torch.cuda.Stream()):
                y = torch.ones(4, device="cuda")
            assert y.data_ptr() == 1
        """
    done = suite(source, "--syncheck", "-l")
    assert "1 failed" in last(done)
    assert "SYN101" not in done.stdout
    assert "y          = tensor([1., 1., 1., 1.]" in done.stdout


def test_the_summary_locates_findings_that_do_not_fail_a_test(suite):
    source = """
        def test_it():
            torch.zeros(4).to("cuda", non_blocking=True).sum().item()
        """
    done = suite(source, "--syncheck")
    assert "1 passed" in last(done)
    assert "test_suite.py:12: SYN303 pageable-non-blocking" in done.stdout


def test_it_works_with_asyncio(suite):
    pytest.importorskip("pytest_asyncio")
    done = suite(
        """
        import asyncio

        @pytest.fixture
        async def prepared():
            yield torch.ones(4, device="cuda")

        @pytest.mark.asyncio
        async def test_bad(prepared):
            await asyncio.sleep(0)
            race()

        @pytest.mark.asyncio
        async def test_good(prepared):
            await asyncio.sleep(0)
            assert prepared.sum().item() == 4
        """,
        "--syncheck",
        settings="asyncio_mode = auto\n",
    )
    assert "1 failed, 1 passed" in last(done), done.stdout
    assert "FAILED test_suite.py::test_bad" in done.stdout


def test_tests_can_run_in_forked_processes(suite, pytester):
    source = """
        def test_bad():
            race()

        def test_good():
            torch.ones(4, device="cuda").sum().item()

        @pytest.mark.syncheck(disable=True)
        def test_left_out():
            race()
        """
    (pytester.path / "conftest.py").write_text(ISOLATION)
    done = suite(source, "--syncheck", "--isolated")
    assert "1 failed, 2 passed" in last(done), done.stdout
    assert "return x * 2" in done.stdout
    assert "1 finding in 1 test" in done.stdout


def test_a_rerun_test_is_checked_again(suite, pytester):
    pytest.importorskip("pytest_rerunfailures")
    source = """
        attempts = []

        def test_it():
            attempts.append(1)
            if len(attempts) == 1:
                race()

        def test_always():
            race()
        """
    done = suite(source, "--syncheck", "--reruns", "1")
    assert "1 failed, 1 passed, 2 rerun" in last(done), done.stdout


def test_pytest_options_override_settings_in_pyproject(suite, pytester):
    (pytester.path / "pyproject.toml").write_text('[tool.syncheck]\nignore = ["SYN1"]\ndevices = 3\n')
    body = "def test_it():\n    race()\n    assert torch.cuda.device_count() == {}\n"
    assert "1 passed" in last(suite(body.format(3), "--syncheck"))
    assert "1 passed" in last(suite(body.format(4), "--syncheck", settings="syncheck_devices = 4"))
    assert "1 passed" in last(suite(body.format(5), "--syncheck", "--syncheck-devices", "5"))


def test_an_expected_failure_stays_one_with_a_baseline(suite):
    source = "@pytest.mark.xfail(strict=True)\ndef test_it(): race()\n"
    baseline = ("--syncheck", "--syncheck-baseline", "known.json")
    assert "1 xfailed" in last(suite(source, *baseline, "--syncheck-write-baseline"))
    assert "1 xfailed" in last(suite(source, *baseline))


def test_a_failure_that_is_not_expected_is_known_from_the_baseline(suite):
    source = """
    @pytest.mark.xfail(False, reason="not here")
    def test_other_machine(): race()
    @pytest.mark.xfail(raises=ValueError)
    def test_other_error(): race()
    """
    baseline = ("--syncheck", "--syncheck-baseline", "known.json")
    suite(source, *baseline, "--syncheck-write-baseline")
    assert "1 passed, 1 xpassed" in last(suite(source, *baseline))


@pytest.mark.parametrize("parallel", [(), ("-n", "2")])
def test_a_baseline_lets_known_findings_pass(suite, pytester, parallel):
    source = "def test_it():\n    race()\ndef test_other():\n    race()\n"
    baseline = ("--syncheck", "--syncheck-baseline", "known.json", *parallel)
    done = suite(source, *baseline)
    assert "no such baseline" in done.stdout + done.stderr
    done = suite(source, *baseline, "--syncheck-write-baseline")
    assert "2 passed" in last(done), done.stdout
    assert "SYN101" in (pytester.path / "known.json").read_text()
    assert "2 passed" in last(suite(source, *baseline))
    new = (
        source
        + "def test_new():\n    x = torch.ones(3, device='cuda')\n"
        + "    with torch.cuda.stream(torch.cuda.Stream()):\n        x + 1\n"
    )
    done = suite(new, *baseline)
    assert "1 failed, 2 passed" in last(done), done.stdout
    assert "2 of them are known" in done.stdout


@pytest.mark.parametrize("parallel", [(), ("-n", "2")])
def test_one_report_for_all_tests_can_be_written_to_a_file(suite, pytester, parallel):
    tests = "def test_it():\n    race()\ndef test_other():\n    race()\n"
    suite(tests, "--syncheck", "--syncheck-output", "report.json", "--syncheck-output-format", "json", *parallel)
    report = json.loads((pytester.path / "report.json").read_text())
    (finding,) = report["findings"]
    assert (finding["rule"], finding["line"], finding["count"]) == ("SYN101", 9, 2)
    assert report["summary"]["operators"] > 0
    suite(tests, "--syncheck", "--syncheck-output", "report.sarif", "--syncheck-output-format", "sarif", *parallel)
    (run,) = json.loads((pytester.path / "report.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["SYN101"]
    assert (
        "--syncheck-output-format: 'yaml'; choose from text"
        in suite(tests, "--syncheck", "--syncheck-output-format", "yaml").stderr
    )


def test_settings_of_other_commands_are_ignored(suite, pytester):
    (pytester.path / "pyproject.toml").write_text("[tool.syncheck]\nfail-fast = true\nmax-findings = 1\n")
    done = suite("def test_it():\n    race()\ndef test_other():\n    assert 0\n", "--syncheck")
    assert "2 failed" in last(done)


def test_findings_at_import_time_fail_the_session(suite):
    for parallel in ((), ("-n", "1")):
        done = suite("race()\ndef test_it():\n    pass\n", "--syncheck", *parallel)
        assert "1 passed" in last(done)
        assert done.returncode == 1
        assert "error[SYN101]" in done.stdout
        assert "when the test modules were imported" in done.stdout


def test_a_marker_has_the_same_meaning_with_the_flag(suite, pytester):
    (pytester.path / "pyproject.toml").write_text('[tool.syncheck]\nselect = ["SYN2"]\n')
    source = """
        @pytest.mark.syncheck(select=["SYN101"])
        def test_bad():
            race()

        def test_other():
            if torch.cuda.is_available():
                race()
        """
    for flag in ((), ("--syncheck",)):
        assert "1 failed, 1 passed" in last(suite(source, *flag))


@pytest.mark.parametrize("marker", ['ignore=["SYN999"]', "ignor=[]", "devices=0", "devices=99"])
@pytest.mark.parametrize("flag", [(), ("--syncheck",)])
def test_an_invalid_marker_fails_only_its_test(suite, marker, flag):
    source = f"@pytest.mark.syncheck({marker})\ndef test_it():\n    pass\ndef test_other():\n    pass\n"
    assert "1 passed, 1 error" in last(suite(source, *flag))


@pytest.mark.parametrize(
    "selected",
    [("-k", "other"), ("test_suite.py::test_other",), ("-k", "none"), ("--deselect", "test_suite.py::test_it")],
)
def test_only_a_run_of_the_whole_suite_removes_findings_from_the_baseline(suite, pytester, selected):
    source = "def test_it():\n    race()\ndef test_other():\n    pass\n"
    write = ("--syncheck", "--syncheck-baseline", "known.json", "--syncheck-write-baseline")
    suite(source, *write)
    known = (pytester.path / "known.json").read_text()
    assert "SYN101" in known
    done = suite(source, *write, *selected)
    assert (pytester.path / "known.json").read_text() == known
    assert "not all tests ran, so no finding was removed from the baseline" in done.stdout
    suite(source.replace("race()", "pass"), *write)
    assert "SYN101" not in (pytester.path / "known.json").read_text()


def test_the_markers_of_a_test_its_class_and_its_module_are_combined(suite):
    source = """
        pytestmark = pytest.mark.syncheck(ignore=["SYN101"])

        @pytest.mark.syncheck(ignore=["SYN301"])
        def test_both_are_ignored():
            race()

        class TestClass:
            pytestmark = pytest.mark.syncheck(disable=True)

            @pytest.mark.syncheck(devices=2)
            def test_is_disabled(self):
                assert not torch.cuda.is_available()

            @pytest.mark.syncheck(disable=False)
            def test_is_checked(self):
                assert torch.cuda.is_available()
        """
    assert "3 passed" in last(suite(source))
    assert "1 failed, 2 passed" in last(suite(source.replace("SYN101", "SYN102")))


def test_a_marker_accepts_a_string_for_one_rule(suite):
    assert "1 passed" in last(suite('@pytest.mark.syncheck(ignore="SYN101")\ndef test_it():\n    race()\n'))


def test_the_fixture_accepts_rule_names_and_prefixes(suite):
    source = "def test_it(syncheck):\n    with syncheck.expect('unordered-read', 'SYN1'):\n        race()\n"
    assert "1 passed" in last(suite(source, "--syncheck"))


def test_workers_report_marked_tests_without_the_flag(suite, pytester):
    source = "@pytest.mark.syncheck\ndef test_it():\n    race()\n"
    done = suite(source, "-n", "1", "--syncheck-output", "report.json", "--syncheck-output-format", "json")
    assert "1 finding in 1 test" in done.stdout
    assert json.loads((pytester.path / "report.json").read_text())["findings"]
    assert "1 finding in 1 test" in suite(source, "-n", "1").stdout
    known = ("-n", "1", "--syncheck-baseline", "known.json")
    assert "1 passed" in last(suite(source, *known, "--syncheck-write-baseline"))
    assert "1 passed" in last(suite(source, *known))


def test_a_report_that_cannot_be_written_is_refused_before_the_tests(suite):
    done = suite("def test_it():\n    race()\n", "--syncheck", "--syncheck-output", "nowhere/report.txt")
    assert done.returncode == 4
    assert "cannot write the report to nowhere/report.txt: no such folder" in done.stderr
    assert "passed" not in done.stdout


def test_findings_are_shown_if_the_report_cannot_be_written(suite, pytester):
    folder = pytester.mkdir("reports")
    source = f"""
        def test_it():
            race()

        def test_folder():
            import os
            os.rmdir({str(folder)!r})
        """
    done = suite(source, "--syncheck", "--syncheck-output", "reports/report.txt")
    assert done.returncode == 4
    assert "error[SYN101]" in done.stdout
    assert "reports" in done.stdout


def test_arguments_of_the_marker_need_names(suite):
    done = suite("@pytest.mark.syncheck('SYN101')\ndef test_it():\n    race()\n")
    assert "1 error" in last(done)
    assert "the arguments of the marker syncheck need names, such as select=('SYN101',)" in done.stdout


def test_messages_name_the_options_of_pytest(suite):
    done = suite("def test_it():\n    race()\n", "--syncheck", "--syncheck-backend", "cuda")
    assert done.returncode == 4
    assert "use simulated GPUs: --syncheck-backend sim" in done.stderr


def test_an_incomplete_check_is_reported(suite):
    source = """
        import torch.multiprocessing as mp

        def child(rank):
            pass

        def test_it():
            torch.ones(2, device="cuda")
            mp.spawn(child, nprocs=1)
        """
    done = suite(source, "--syncheck")
    assert "incomplete: " in done.stdout


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("syncheck_fail_on = never", "syncheck_fail_on: 'never'; choose from error, warning, advice"),
        ("syncheck_devices = many", "expected a whole number from 1 to 64"),
        ("syncheck_ignore = SYN999", "SYN999"),
    ],
)
def test_invalid_settings_are_named(suite, setting, words):
    done = suite("def test_it(): pass\n", "--syncheck", settings=setting)
    assert done.returncode == 4
    assert words in done.stderr + done.stdout


def test_the_unused_plugin_does_not_import_torch(pytester):
    (pytester.path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert 'torch' not in sys.modules\n"
        "    assert 'syncheck.run.run' not in sys.modules\n"
    )
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=60)
    assert done.ret == 0


def test_a_race_in_a_test_is_reproduced(suite, pytester):
    (pytester.path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--size')\n")
    source = """
        import pytest

        @pytest.mark.parametrize("factor", [2, pytest.param(3, id="3/./x")])
        def test_wrong(factor):
            side, x = torch.cuda.Stream(), torch.ones(4, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x * factor
            assert y.sum().item() == 4 * factor

        def test_right():
            torch.ones(4, device="cuda") * 2
    """
    done = suite(source, "--size=3", "--syncheck", "--syncheck-witness", "-k", "3 or right")
    assert "1 failed, 1 passed" in last(done)
    assert "proof: shown by running the two accesses in the other order" in done.stdout
    assert "how the program ends: with status 1, not with status 0" in done.stdout
    command = re.search(r"reproduce with: (syncheck run .*)", done.stdout)[1]
    assert "test_suite.py::test_wrong[3/./x]" in command
    assert "incomplete" not in done.stdout
    again = warm.run(*shlex.split(command), folder=pytester.path)
    assert again.returncode == 1
    assert "nan" in again.stdout


def test_a_rerun_prints_no_duration_that_could_be_taken_for_a_difference(suite, pytester):
    done = suite("def test_it():\n    race()\n", "--syncheck", "--syncheck-witness")
    command = re.search(r"reproduce with: (syncheck run .*)", done.stdout)[1]
    again = warm.run(*shlex.split(command), folder=pytester.path)
    assert again.returncode == 1  # it has the race
    assert "passed in" not in again.stdout


def test_a_test_that_cannot_be_rerun_gives_the_reason(suite, pytester):
    (pytester.path / "conftest.py").write_text("import sys\nassert 'syncheck' not in sys.orig_argv, 'not here'\n")
    done = suite("def test_it():\n    race()\n", "--syncheck", "--syncheck-witness")
    assert "1 failed" in last(done)
    assert "could not try the other order" in done.stdout


def test_only_a_failing_test_gets_a_page(suite, pytester):
    pytest.importorskip("jinja2")
    result = suite(
        """
        def test_wrong():
            race()

        def test_right():
            torch.ones(4, device="cuda") * 2
        """,
        "--syncheck",
        "--syncheck-html=pages",
    )
    (page,) = (pytester.path / "pages").iterdir()
    assert page.name == "test_suite.py_test_wrong.html"
    assert "SYN101" in page.read_text()
    assert "timeline: " in result.stdout
