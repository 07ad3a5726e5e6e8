"""Shrinks a program that shows a problem."""

from collections.abc import Callable

from tests.agreement.steps import Program


def smallest(program: Program, problem: Callable[[Program], str]) -> Program:
    """Return a program whose steps are all needed to show the problem. `problem` returns "" if there is none."""
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
        return False  # other steps need what the removed one created
