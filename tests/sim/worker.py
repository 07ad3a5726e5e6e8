"""Imports torch once, then runs each program that standard input names in a forked child, through the tool.

One JSON object a line: {"program": path, "report": path, "log": path, "cwd": path}; answers with the wait status.
"""

import json
import os
import signal
import sys
import traceback
import warnings

import torch
import torch._dynamo

import syncheck.backends
import syncheck.cli


def run(job: dict[str, str]) -> None:
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.chdir(job["cwd"])
    signal.alarm(60)  # a program that waits for ever fails
    sys.argv = ["syncheck", "run", "--backend", "sim", "--devices", "4", "--output-format", "json"]
    sys.argv += ["--output", job["report"], job["program"]]
    syncheck.cli.main()


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                run(job)
            except SystemExit as end:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(end.code or 0)
            except BaseException:  # noqa: BLE001  the child must not go on as the worker
                traceback.print_exc()
            os._exit(99)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201  the answer


if __name__ == "__main__":
    main()
