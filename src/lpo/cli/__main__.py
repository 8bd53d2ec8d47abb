"""``python -m lpo.cli``."""

from lpo.cli.main import main

main()
