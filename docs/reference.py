"""Lists every public name for the reference, so that a new one cannot be forgotten; called by ``conf.py``."""

import importlib
import inspect
from pathlib import Path

PARTS = {
    "bagwise": "Bags, evidence, models, pipelines",
    "bagwise.active": "What to label next",
    "bagwise.labelling": "Labelling without the page",
    "bagwise.compare": "Which model for my data",
    "bagwise.aggregates": "Rates of groups, from totals",
    "bagwise.metrics": "How good the probabilities are",
    "bagwise.inspection": "Which features matter",
    "bagwise.plots": "Pictures",
    "bagwise.report": "The HTML report",
    "bagwise.datasets": "Data to try things on",
    "bagwise.io": "Tables and archives",
    "bagwise.model_selection": "Ways to split bags",
    "bagwise.baselines": "Plain methods to compare with",
    "bagwise.models": "Finding and loading models",
    "bagwise.scale": "More than memory, more than one machine",
    "bagwise.exceptions": "Errors and warnings",
    "bagwise.testing": "The contract of an estimator",
}


def public_names(module_name):
    """``__all__`` where there is one; otherwise the classes and functions that the module itself defines."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if inspect.isclass(thing := getattr(module, name)) or callable(thing)]
    own = [
        name
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", None) == module_name and (inspect.isclass(thing) or inspect.isfunction(thing))
    ]
    return sorted(name for name in own if not name.startswith("_"))


def write_lists(folder: Path):
    """One page per part of the library, with a page for every name behind it; the pages, old ones being removed."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for number, (module, title) in enumerate(PARTS.items()):
        heading = f"{title} (``{module}``)"
        lines = [heading, "=" * len(heading), "", f".. currentmodule:: {module}", "", ".. autosummary::"]
        lines += ["   :toctree: names", "   :nosignatures:", "", *(f"   {name}" for name in public_names(module)), ""]
        page, text = folder / f"{number:02d}_{module.replace('.', '_')}.rst", "\n".join(lines)
        if not page.exists() or page.read_text() != text:  # an unchanged page need not be built again
            page.write_text(text)
        pages.append(page)
    for old in set(folder.glob("*.rst")) - set(pages):
        old.unlink()
    return pages
