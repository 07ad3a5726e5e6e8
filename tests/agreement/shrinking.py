"""Makes a program that shows a problem smaller."""

from collections.abc import Callable

from tests.agreement.steps import Program


def smallest(program: Program, problem: Callable[[Program], str]) -> Program:
    """Return a program from which no step can be taken without losing the problem; `problem` says what it is."""
    number = 0
    while number < len(program.steps):
        smaller = Program((*program.steps[:number], *program.steps[number + 1 :]), program.n_devices)
        if _has(smaller, problem):
            program, number = smaller, 0
        else:
            number += 1
    return program


def _has(program: Program, problem: Callable[[Program], str]) -> bool:
    try:
        return bool(problem(program))
    except (AttributeError, KeyError, NameError, RuntimeError, TypeError):
        return False  # the step made something that others need
