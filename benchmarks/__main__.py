"""All benchmarks, one table: `python -m benchmarks [--quick] [--directory DIR]`."""

from benchmarks import (
    append,
    commit,
    decoders,
    duplicate,
    events,
    large,
    listing,
    read,
    replay,
    scan,
    suffix,
    write_behind,
)
from benchmarks.measure import Measure, main

ALL: tuple[Measure, ...] = (
    commit.measure,
    large.measure,
    duplicate.measure,
    read.measure,
    append.measure,
    write_behind.measure,
    events.measure,
    replay.measure,
    suffix.measure,
    listing.measure,
    scan.measure,
    decoders.measure,
)

if __name__ == "__main__":
    main(*ALL)
