"""Results as one self-contained HTML page."""

from bagwise.report.page import write_report

__all__ = ["write_report"]
