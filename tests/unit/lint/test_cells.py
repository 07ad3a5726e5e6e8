"""Cells of notebooks as Python: what IPython alone understands is replaced, and known as it was written."""

import pytest

from syncheck.lint.cells import lines_of


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%%bash\nls -l | grep (", "pass\npass"),
        ("\n%%html\n<b>", "pass\npass\npass"),
        ("%%time\nx = 1", "pass\nx = 1"),
        ("%%syncheck --devices 2\nx = 1", "pass\nx = 1"),
        ("paths = !ls *.py\n  n = %sql SELECT 1", "paths = None\n  n = None"),
        ("torch.cuda?\nx.y??", "pass\npass"),
        ("%time z = y + 1\n%timeit f(x)\n  %prun -l 5 f(x)", "z = y + 1\nf(x)\n  f(x)"),
        ("%timeit -n 10 -r3 -q f(x)", "f(x)"),
        ("%lprun -f model.forward model(x)\n%memit -r 1 f()", "model(x)\nf()"),
        ("  %time for b in loader: train(b)", "  for b in loader: train(b)"),
        ("%time !ls\n%time\n%time x = (\n%time --no-raise-error f()", "pass\npass\npass\nf()"),
        ("%timer x\n%time?\n%%time x", "pass\npass\npass"),
        ("if x:\n    !pip install a \\\n      b \\\n  c\n    y = 1", "if x:\n    pass\n    pass\n    pass\n    y = 1"),
        ("a, b = !ls\nd['k'] = !ls\nx.y = !ls", "a, b = None\nd['k'] = None\nx.y = None"),
        ("x = 1 + \\\n    2", "x = 1 + \\\n    2"),
        ("x = '\u2028'", "x = '\u2028'"),
        ("x = a % b\nx %= 3\ny = x != 3", "x = a % b\nx %= 3\ny = x != 3"),
    ],
)
def test_notebook_only_syntax_is_replaced(cell, python):
    lines = lines_of(cell)
    assert "\n".join(line.python for line in lines) == python
    assert [line.written for line in lines] == cell.split("\n")


def test_the_code_after_a_magic_is_known_by_its_distance():
    (line,) = lines_of("  %timeit -n 3 f(x)")
    assert (line.beginning, line.stand_in, line.rest, line.shift) == ("  %timeit -n 3 ", "  ", "f(x)", 13)
