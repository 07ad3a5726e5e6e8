"""Messages about internal errors of syncheck."""

from syncheck.instrument.failures import stopped_by


def _raised() -> Exception:
    try:
        int("x")
    except ValueError as error:
        return error
    raise AssertionError


def test_an_error_is_reported_with_its_location():
    error = _raised()
    line = error.__traceback__.tb_lineno
    assert stopped_by(error) == (
        "syncheck itself failed and stopped checking: "
        f"ValueError: invalid literal for int() with base 10: 'x' at test_failures.py:{line}"
    )


def test_an_error_that_was_never_raised_has_no_location():
    assert stopped_by(KeyError("a")) == "syncheck itself failed and stopped checking: KeyError: 'a'"
