"""How fast attachstore is, one script per question: `python -m benchmarks`, or `make bench`."""
