"""Environments on the device."""
