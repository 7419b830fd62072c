"""Look at every link of the built site that leads to the site itself: python tools/check_links.py FOLDER

A link is good if its file is there and, where it names a place in a page, if the page has that place. Links to other
machines are counted, not followed: the site is built without a network.
"""

import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LINK = re.compile(r'(?:href|src)="([^"]+)"')
_PLACE = re.compile(r'\bid="([^"]+)"')
_THEME = "_static"  # templates and scripts that came with the theme


def pages(folder: Path) -> list[Path]:
    """The pages of the site."""
    return sorted(page for page in folder.rglob("*.html") if _THEME not in page.relative_to(folder).parts)


def links(page: Path) -> set[str]:
    """What a page leads to."""
    return set(_LINK.findall(page.read_text(encoding="utf-8")))


@cache
def places(page: Path) -> frozenset[str]:
    """What a link may name behind ``#``."""
    return frozenset(_PLACE.findall(page.read_text(encoding="utf-8")))


def is_broken(page: Path, link: str) -> bool:
    """Whether a link within the site leads nowhere."""
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return True
    place = unquote(parts.fragment)
    return bool(place) and target.suffix == ".html" and place not in places(target)


def main(folder: str) -> None:
    """Print the broken links; the exit status is 1 if there are any, or no pages."""
    found = pages(Path(folder).resolve())
    everything = [(page, link) for page in found for link in sorted(links(page))]
    own = [(page, link) for page, link in everything if not urlsplit(link).scheme]
    broken = [(page, link) for page, link in own if is_broken(page, link)]
    for page, link in broken:
        print(f"{page}: {link} leads nowhere", file=sys.stderr)
    print(f"{len(found)} pages, {len(own)} links within the site, {len(broken)} of them broken")
    sys.exit(1 if broken or not found else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
