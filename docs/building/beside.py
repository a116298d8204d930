"""What mkdocs does not do by itself for this manual; it calls these functions (`hooks` in mkdocs.yml).

- Pages link to files beside the folder docs, as a reader of the repository follows them (`../plugins/README.md`). Each such
  file becomes a part of the site, a page where it is Markdown, so that no link leads out of it.
- A page that would load anything from another host fails the build: the manual is read where there is no Internet, and
  nobody is told that it is read.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = ("plugins/README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Those that stand in the navigation."""
OUTSIDE = re.compile(r"\]\(\.\./((?:\.\./)*)([^)#]+)")
INTO_DOCS = re.compile(r"\]\((?:\.\./)?docs/")
_ELSEWHERE = r"""=["']?(?:https?:)?//[^>]*>"""
FOREIGN = re.compile(rf"<(?:script|img|iframe|source)[^>]+src{_ELSEWHERE}|<link[^>]+href{_ELSEWHERE}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside of docs."""
    wanted = set(PAGES)
    for page in files.documentation_pages():
        wanted |= {path for _, path in OUTSIDE.findall(page.content_string)}
    for path in sorted(wanted):
        if (ROOT / path).is_file():  # a link to what is not there is left for mkdocs to complain of
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links between docs and what is beside it lead to where the site has them."""
    if page.file.generated_by is None:
        return OUTSIDE.sub(r"](\1\2", markdown)
    up = "../" * page.file.src_uri.count("/")
    return INTO_DOCS.sub(f"]({up}", markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse what would be loaded from elsewhere."""
    for found in FOREIGN.findall(output):
        if 'rel="canonical"' not in found:
            raise PluginError(f"{page.file.src_uri}: something is loaded from another host: {found}")
    return output
