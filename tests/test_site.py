"""The site: its pages are reachable, its reference is complete, and nothing comes from a network."""

import importlib
import importlib.util
import re
from pathlib import Path

import bagwise

DOCS = Path(__file__).parents[1] / "docs"


def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed_pages():
    """Every page that a table of contents names."""
    found = {DOCS / "index.md"}
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for name in (line for line in block.split() if not line.startswith(":")):
                found |= set(page.parent.glob(f"{name}.md")) if "generated" not in name else set()
    return {path.resolve() for path in found}


def test_every_page_is_in_the_contents():
    pages = {
        page.resolve() for page in DOCS.rglob("*.md") if "_build" not in page.parts and "gallery" not in page.parts
    }
    assert pages == listed_pages()


def test_reference_lists_every_public_name():
    found = reference()
    assert set(found.public_names("bagwise")) == set(bagwise.__all__)
    assert {"importance", "FeatureImportance"} <= set(found.public_names("bagwise.inspection"))
    assert "suggest" in found.public_names("bagwise.active")
    covered = {name.split(".")[1] for name in found.PARTS if "." in name}
    assert set(bagwise._SUBMODULES) - {"bench"} <= covered


def test_lists_of_names_that_are_no_longer_wanted_are_removed(tmp_path):
    (tmp_path / "99_bagwise_gone.rst").write_text("gone")
    pages = reference().write_lists(tmp_path)
    assert set(tmp_path.iterdir()) == set(pages)
    assert len(pages) == len(reference().PARTS)


def test_bars_in_docstrings_stand_in_literals():
    """Sphinx takes |x| for a substitution; ``|x|`` is fine."""
    found = reference()
    things = [
        (module, name, getattr(importlib.import_module(module), name))
        for module in found.PARTS
        for name in found.public_names(module)
    ]
    texts = {
        f"{module}.{name}": re.sub("``.*?``", "", thing.__doc__ or "", flags=re.DOTALL)
        for module, name, thing in things
    }
    assert not [name for name, text in texts.items() if re.search(r"\|\S[^|\n]*\S?\|", text)]


def test_site_asks_no_other_machine_for_anything():
    settings = (DOCS / "conf.py").read_text()
    assert "intersphinx" not in settings
    assert "mathjax" not in settings
    assert "http" not in settings + (DOCS / "_static" / "site.css").read_text()


def test_questions_and_answers_quote_messages_that_exist():
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(bagwise.__file__).parent.rglob("*.py"))
    messages = re.sub(r'"\s*\n\s*f?"', "", sources)  # texts that are written on several lines
    headings = re.findall(r'^\*\*"(.+?)"\*\*', (DOCS / "faq.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) > 8
    pieces = [piece.strip(" ;,") for quote in headings for piece in quote.split("…")]
    assert not [piece for piece in pieces if piece not in messages]
