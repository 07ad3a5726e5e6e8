"""Loading of the rules and library descriptions that the settings name."""

from typing import NamedTuple

from syncheck.config.extensions import digest_of, import_all
from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.lint import rule_registry


class Extensions(NamedTuple):
    """The extensions to load, in this process and in its lint workers.

    Attributes:
        rules: names of modules with rules.
        models: names of modules with library descriptions.
        folder: the project's folder.
    """

    rules: tuple[str, ...]
    models: tuple[str, ...]
    folder: str

    @classmethod
    def of(cls, options: Options) -> "Extensions":
        """Return the extensions that the settings for the working directory name."""
        return cls(options.rules, options.models, options.root)

    def load(self) -> str:
        """Import the modules and register their contents; return a digest of the modules.

        Raises:
            ConfigError: a module cannot be imported or has no rule, or two rules share a code.
        """
        modules = []
        if self.models:
            from syncheck.lint import models  # noqa: PLC0415  imports the interpreter; --help does not need it
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
