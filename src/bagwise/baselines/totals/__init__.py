"""Ecological inference: rates of groups from totals. Bags are precincts, rows are groups, weights are people."""
