"""Words in names."""

import pytest

from syncheck.source.words import words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("device_supports_nonBlocking", {"device", "supports", "non", "blocking"}),
        ("HTTPServer2", {"http", "server"}),
        ("", set()),
    ],
)
def test_the_words_of_a_name(name, words):
    assert words_of(name) == words
