"""Other ways to keep bytes, each behind one seam, installed for the benchmarks alone."""
