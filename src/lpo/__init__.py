"""Exploration for sparse-reward reinforcement learning: the LPO paper as a library."""
