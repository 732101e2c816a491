"""Benchmarks: commands that print target and reached. Speed is always a ratio measured in one run."""
