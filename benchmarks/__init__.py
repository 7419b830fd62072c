"""Speed and quality, measured: ``python -m benchmarks`` runs everything, each file also runs alone."""
