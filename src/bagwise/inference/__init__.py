"""How a posterior is found, one file per method; all share the loop and the sums over chunks of bags."""
