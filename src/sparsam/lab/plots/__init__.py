"""Pictures of runs: learning curves, memory accesses over time, and a report that holds both."""
