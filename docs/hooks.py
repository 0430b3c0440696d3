"""What mkdocs leaves undone: the notebook's links to pages of docs/ lead to those of the site."""

import re
from typing import Any


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called for every page."""
    if page.file.src_uri.endswith(".ipynb"):
        return re.sub(r'href="(\.\./[\w-]+)\.md(#[\w-]*)?"', r'href="\1.html\2"', html)
    return html
