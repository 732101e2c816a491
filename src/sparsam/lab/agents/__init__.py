"""Agents that must remember: PPO, the cores that are compared in it, and the environments."""
