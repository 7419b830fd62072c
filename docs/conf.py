"""The site: ``make docs``. It is built without a network, and a warning is an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from reference import write_lists  # noqa: E402

from bagwise import __version__  # noqa: E402

lists = write_lists(HERE / "api" / "generated")

project = "bagwise"
author = "the bagwise developers"
project_copyright = "the bagwise developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "skeletons", "gallery/*.md5"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

smartquotes = False  # "label" is a value to type

# Markdown: anchors of headings as on the pages of a repository.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# Docstrings: parameters in the manner of scikit-learn.
autosummary_generate = [str(page) for page in lists]  # by name: a new one is found in a build that goes on, too
autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # the docstrings say it, in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "ExampleTitleSortKey",
    "show_memory": False,
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "bagwise"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "icon_links": [],
}
html_context = {"default_mode": "auto"}


def _is_of_scikit_learn(app, what, name, thing, skip, options):
    """Leave out what an estimator only inherits from scikit-learn: routing of metadata, output containers."""
    return skip or name.endswith("_request") or (getattr(thing, "__module__", None) or "").startswith("sklearn.")


def setup(app):
    """Hooks of the build."""
    app.connect("autodoc-skip-member", _is_of_scikit_learn)
