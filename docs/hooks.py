"""MkDocs hooks: add the generated pages and adapt the rendering of pages.

Everything that depends on MkDocs is here and in `mkdocs.yml`, which its successor Zensical also reads. The theme,
Material for MkDocs, is maintained until May 2027. The pages are plain Markdown, and the modules beside this one return
text.

Source:
    MkDocs, "Events": `on_config`, `on_files`, `on_page_markdown`, `on_page_content`.
"""

import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

from syncheck.version import __version__

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import made_commands  # noqa: E402  beside this file
import made_rules  # noqa: E402  beside this file
import pictures  # noqa: E402  beside this file
import terminal  # noqa: E402  beside this file

_FILES = re.compile(r"\]\(\.\./((?:bench|editors|fixtures|peer|syncheck|tests)/[^)]*)\)")
_PICTURE = re.compile(r'<img [^>]*src="[^"]*pictures/(\w+)\.svg"[^>]*/?>')


def on_config(config):
    """Add each rule to the navigation, below its family, and set the version."""
    for entry in config.nav:
        if isinstance(entry, dict) and "Rules" in entry:
            entry["Rules"] = made_rules.navigation()
    config.copyright = f"syncheck {__version__}"
    config.extra["this_version"] = os.environ.get("SYNCHECK_DOCS_VERSION", __version__)
    config.extra["versions"] = os.environ.get("SYNCHECK_DOCS_VERSIONS", "")  # see docs/publish.py
    return config


def on_files(files, config):
    """Add the generated pages."""
    pages = made_rules.pages() | made_commands.pages()
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    schema = "report-1.schema.json"
    pages[schema] = (ROOT / "syncheck/report" / schema).read_text(encoding="utf-8")
    pages |= {f"pictures/{name}.svg": picture() for name, picture in pictures.PICTURES.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Fill in tables, colour reports, and point links into the repository at its host."""
    markdown = markdown.replace("{{ settings }}", made_commands.settings_table())
    markdown = markdown.replace("{{ pytest options }}", made_commands.pytest_table())
    markdown = _FILES.sub(rf"]({config.repo_url}/blob/main/\1)", markdown)
    return terminal.coloured(markdown, "../" * page.url.count("/"))


def on_page_content(html, page, config, files):
    """Inline the drawn pictures, so that they use the page's light or dark colours."""
    return _PICTURE.sub(lambda match: pictures.PICTURES[match[1]](), html)
