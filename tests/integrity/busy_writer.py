"""A writer to run beside a scan: puts, appends, forks and deletes until it is told to stop.

    python -m tests.integrity.busy_writer ROOT NUMBER

Ends when its standard input closes. Sessions are its own; contents are everybody's.
"""

from __future__ import annotations

import random
import select
import sys
from pathlib import Path

from attachstore.reference import Reference
from tests.integrity.workshop import Workshop, on_disk, png

CONTENTS = 40


def content(number: int) -> tuple[bytes, str]:
    """The same for every writer; some are images, some larger than a block."""
    if number % 4 == 0:
        return png(1 + number, 2), "image/png"
    return f"content {number}\n".encode() * (200_000 if number % 9 == 0 else 5), "text/plain"


def work(shop: Workshop, name: str, rng: random.Random) -> None:
    """One session from birth to, perhaps, death: with duplicates, batches, forks."""
    session = shop.logs.create(name)
    references = list[Reference]()
    for _ in range(rng.randrange(1, 6)):
        data, media_type = content(rng.randrange(CONTENTS))
        references.append(shop.put(data, media_type))
        session.append("attachment", {"file": references[-1]})
    session.append_many([("message", {"seen": references}), ("message", "x" * 5000)])
    fork = shop.logs.fork(name, at=rng.randrange(session.head + 1), id=f"{name}-fork")
    fork.append("message", {"again": references[0]})
    fork.close()
    session.close()
    if rng.random() < 0.7:
        shop.logs.delete(name)
    if rng.random() < 0.7:
        shop.logs.delete(f"{name}-fork")


def main(root: str, number: str) -> None:
    shop, rng = on_disk(Path(root)), random.Random(int(number))
    rounds = 0
    while True:
        work(shop, f"w{number}-{rounds}", rng)
        rounds += 1
        if select.select([sys.stdin], [], [], 0)[0]:
            break
    print(rounds)


if __name__ == "__main__":
    main(*sys.argv[1:])
