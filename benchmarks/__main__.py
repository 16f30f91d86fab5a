"""All benchmarks: `python -m benchmarks [--quick] [--only NAME] [--minutes N] [--page]`.

Prints one table, keeps what was found in docs/performance/results.json, and writes
docs/performance.md from it. A benchmark that fails is named there, and the others go on.
"""

from benchmarks.runner import main

if __name__ == "__main__":
    main()
