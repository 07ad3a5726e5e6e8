"""Loads the rules and the descriptions of libraries that the settings name."""

from typing import NamedTuple

from syncheck.config.extensions import digest_of, import_all
from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.lint import rule_registry


class Extensions(NamedTuple):
    """What is to be loaded, in this process and in those that lint for it.

    Attributes:
        rules: names of modules.
        models: names of modules.
        folder: the project's.
    """

    rules: tuple[str, ...]
    models: tuple[str, ...]
    folder: str

    @classmethod
    def of(cls, options: Options) -> "Extensions":
        """Return what the settings for the working directory name."""
        return cls(options.rules, options.models, options.root)

    def load(self) -> str:
        """Import the modules and register what they have; return what changes whenever one of them changes.

        Raises:
            ConfigError: a module cannot be imported, or has no rule; two rules share a code.
        """
        modules = []
        if self.models:
            from syncheck.lint import models  # noqa: PLC0415  the interpreter, which --help does not need
            from syncheck.lint.models.library import register_described  # noqa: PLC0415  as above

            models.load()
            modules += import_all(self.models, self.folder, "models")
            register_described()
        for module in import_all(self.rules, self.folder, "rules"):
            modules.append(module)
            found = rule_registry.in_module(module)
            if not found:
                hint = "define a subclass of syncheck.extend.LintRule with `rule = Rule(...)`"
                raise ConfigError(f"{module.__name__} has no rule", hint)
            for kind in found:
                rule_registry.register(kind)
        return digest_of(modules)
