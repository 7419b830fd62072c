"""Where a fit is worked on: how much memory it may take, and which machines do the work."""

from bagwise.scale.cluster import on, on_address
from bagwise.scale.settings import within

__all__ = ["on", "on_address", "within"]
