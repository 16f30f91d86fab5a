"""From the rows of a run to docs/performance.md, and from there again without measuring."""
