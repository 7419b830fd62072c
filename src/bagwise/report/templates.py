"""Pages from templates: everything that is put in is escaped, and a missing value is an error."""

from pathlib import Path

import jinja2

_HERE = Path(__file__).parent  # the head and the style that pages share


def page_template(name: str, *folders: Path) -> jinja2.Template:
    """A template from one of the folders, or from this one."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
