"""``python -m bagwise``."""

from bagwise.cli.app import main

main()
