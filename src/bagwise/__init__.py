"""Learn about individuals when only groups are labelled."""

from bagwise.bags import Bags
from bagwise.per_instance import PerInstance

__all__ = ["Bags", "PerInstance"]
