"""Results as one self-contained HTML page."""

from typing import TYPE_CHECKING

from bagwise._lazy import lazy_names

if TYPE_CHECKING:
    from bagwise.report.page import write_report

__all__ = ["write_report"]

_WHERE = {"write_report": "bagwise.report.page"}

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
