"""Runs syncheck in an interpreter without the features that another system lacks.

    python -m tests.systems.without windows ARGUMENTS...

This does not simulate Windows or macOS: features that only they have are still missing. But if syncheck uses a feature
that they lack, the process ends with a traceback. `modules` instead of ARGUMENTS imports every module of syncheck.
"""

import concurrent.futures.process  # noqa: F401  the standard library needs the real system at import
import importlib
import multiprocessing
import os
import pkgutil
import select
import signal
import sys

OTHERS = """
asyncio concurrent.futures.process multiprocessing.popen_spawn_posix multiprocessing.resource_tracker subprocess
torch torch._dynamo torch.distributed.elastic.multiprocessing.api torch.distributed.run torch.utils.data
jinja2 libcst.codemod libcst.matchers libcst.metadata pathspec pygls.lsp.server pytest _pytest.pytester
rich.ansi rich.console rich.progress rich.table typer typer.rich_utils typer.completion typer.main
""".split()
"""Third-party modules that need the real system while they are imported."""
OF_OS = {
    "windows": """fork forkpty register_at_fork kill killpg getpgid getpgrp setsid chown fchown fchmod lchown getuid
        geteuid getgid getegid getgroups uname nice wait wait3 wait4 mkfifo pread pwrite sysconf sched_getaffinity
        O_NONBLOCK O_CLOEXEC O_DIRECTORY O_NOFOLLOW setpgid openpty posix_spawn getloadavg statvfs set_blocking""",
    "macos": "sched_getaffinity sched_setaffinity posix_fadvise fdatasync O_DIRECT memfd_create pidfd_open",
}
OF_SIGNAL = {
    "windows": """SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGQUIT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGWINCH
        SIGTTIN SIGTTOU SIGPROF SIGVTALRM SIGXCPU SIGXFSZ SIGBUS SIGTRAP pthread_kill pthread_sigmask setitimer
        getitimer ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF sigpending sigwait sigwaitinfo sigtimedwait siginterrupt
        pause alarm""",
    "macos": "sigtimedwait sigwaitinfo SIGPWR SIGSTKFLT SIGRTMIN SIGRTMAX SIGPOLL",
}
MODULES = {
    "windows": ["fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "crypt"],
    "macos": ["spwd"],
}


def _no_proc(function):
    def without(path, *args, **kwargs):
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return function(path, *args, **kwargs)

    return without


def _forget(package):
    """Remove a package from `sys.modules`: this process may be forked from one that has already imported it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def become(system):
    """Remove the features that a system does not have."""
    for name in OTHERS:
        importlib.import_module(name)
    _forget("syncheck")
    multiprocessing.set_start_method("spawn")
    for name in OF_OS[system].split():
        if hasattr(os, name):
            delattr(os, name)
    for name in OF_SIGNAL[system].split():
        if hasattr(signal, name):
            delattr(signal, name)
    for name in MODULES[system]:
        sys.modules[name] = None
    os.readlink, os.open = _no_proc(os.readlink), _no_proc(os.open)
    if system == "windows":
        sys.platform = "win32"  # the modules that check it at import are already loaded
        del select.poll, select.epoll
    else:
        sys.platform = "darwin"


def import_all():
    """Import every module of syncheck and print their number."""
    import syncheck

    found = [module.name for module in pkgutil.walk_packages(syncheck.__path__, "syncheck.")]
    wanted = [name for name in found if not name.endswith("__main__")]
    for name in wanted:
        importlib.import_module(name)
    sys.stdout.write(f"{len(wanted)}\n")


if __name__ == "__main__":
    become(sys.argv[1])
    if sys.argv[2:] == ["modules"]:
        import_all()
    else:
        from syncheck.cli.app import main

        sys.argv[:] = ["syncheck", *sys.argv[2:]]
        main()
