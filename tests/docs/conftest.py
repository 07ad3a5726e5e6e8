"""The sample project of the documentation is no test of this one."""

collect_ignore = ["project"]
