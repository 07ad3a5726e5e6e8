"""Pages of the site that are made of the project itself, and how the pages are shown.

All that depends on MkDocs is here and in `mkdocs.yml`, which its successor Zensical reads, too: the theme, Material for
MkDocs, is maintained until May 2027. The pages are plain Markdown, and the modules beside this one return text.

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
    """Give every rule its entry in the navigation, below its family, and say which version this is."""
    for entry in config.nav:
        if isinstance(entry, dict) and "Rules" in entry:
            entry["Rules"] = made_rules.navigation()
    config.copyright = f"syncheck {__version__}"
    config.extra["this_version"] = os.environ.get("SYNCHECK_DOCS_VERSION", __version__)
    config.extra["versions"] = os.environ.get("SYNCHECK_DOCS_VERSIONS", "")  # see docs/publish.py
    return config


def on_files(files, config):
    """Add the pages that are made."""
    pages = made_rules.pages() | made_commands.pages()
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    schema = "report-1.schema.json"
    pages[schema] = (ROOT / "syncheck/report" / schema).read_text(encoding="utf-8")
    pages |= {f"pictures/{name}.svg": picture() for name, picture in pictures.PICTURES.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Fill in tables, colour reports, and make links into the repository links to where it is hosted."""
    markdown = markdown.replace("{{ settings }}", made_commands.settings_table())
    markdown = _FILES.sub(rf"]({config.repo_url}/blob/main/\1)", markdown)
    return terminal.coloured(markdown, "../" * page.url.count("/"))


def on_page_content(html, page, config, files):
    """Put the drawn pictures into the page, where they have its colours, light or dark."""
    return _PICTURE.sub(lambda match: pictures.PICTURES[match[1]](), html)
