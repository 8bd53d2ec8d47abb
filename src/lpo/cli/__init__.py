"""The command line."""

from lpo.cli.main import main

__all__ = ["main"]
