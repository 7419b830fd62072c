"""The method of bounds: what totals leave possible, whatever one assumes."""

from bagwise.baselines.totals.group_totals import Floats, GroupTotals, RatesFromTotals, bounds_of_rates, over_people
from bagwise.models._base.saved import ModelCard


class RateBounds(RatesFromTotals):
    """The method of bounds: the least and the largest rate of every group that the totals of a bag allow.

    Nothing is assumed, so nothing can be wrong: ``lower`` and ``upper`` are certain, whatever ``level`` is. ``mean`` is
    the middle of the two and no estimate. Bounds are wide unless a group makes up most of a bag.

    Attributes
    ----------
    groups_ : tuple of str
        Names of the groups.
    n_features_in_ : int
        Number of groups.

    References
    ----------
    Duncan & Davis, An alternative to ecological correlation, American Sociological Review 18, 1953.
    """

    card = ModelCard("rate-bounds", ("fraction",), "Duncan & Davis 1953", "bounds")

    def _fit(self, totals: GroupTotals) -> None:
        """There is nothing to learn."""

    def _rates(self, totals: GroupTotals, level: float) -> tuple[Floats, ...]:
        least, most = bounds_of_rates(totals)
        parts = (0.5 * (least + most), least, most)
        return (*parts, *(over_people(part, totals.people) for part in parts))
