"""Laws of the number of positives in a bag: how likely each count is, and what a count says of each instance."""
