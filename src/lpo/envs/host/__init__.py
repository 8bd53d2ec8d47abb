"""Environments that are stepped on the host: Gymnasium's and the native MuJoCo batch."""
