"""Runs on disk: directories, checkpoints, logs, packed files."""
