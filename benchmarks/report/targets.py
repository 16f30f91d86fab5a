"""What the project aims for, and for what it does not reach, why: where the time goes.

The reasons stand on the page only where a run did not meet the target; they point at the rows of
benchmarks/steps.py, which every run measures again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    group: str
    """Of the questions that answer it."""
    what: str
    against: str
    goal: str
    why_not: str
    """The explanation, should it not be met: where the time goes, and what the floor is."""


TARGETS = (
    Target(
        group="attach",
        what="attach 4 - 100 KiB, one writer",
        against="write, fsync, link, fsync directory; a SQLite blob in WAL, FULL",
        goal="<= 0.5 x the file, and faster than SQLite",
        why_not=(
            "Without the intake (`no intake`) an object is a durable file, so 1 is the floor: two "
            "commits of the file system's journal, of which none can go. With it one "
            "`fdatasync` over zeros is the floor (`attach 16 KiB: write into a zero-filled "
            "file, fdatasync` below), and on top come what SQLite does not do: the type is "
            "found and probed, the bytes are hashed, and the call goes to a thread and back "
            "so that the caller's loop goes on. Those are processor time, which weighs the "
            "more the faster the disk syncs. An object that comes alone is written as a file"
            " even with the intake: the thread that gives files to what an intake holds "
            "would cost it more. Bytes that only libmagic can name wait for its worker "
            "process as well."
        ),
    ),
    Target(
        group="concurrent",
        what="attach 16 KiB, 32 tasks, and `attach_many` of 1 000",
        against="ours, one writer, one by one",
        goal="<= 1/6 of the time, that is 6 x the throughput",
        why_not=(
            "Tasks share the file system's commits, but not Python's lock: admission, "
            "hashing and the bookkeeping of a call are processor time that runs one at a "
            "time (`attach 16 KiB: sniff and probe the text`, `to a thread and back`), and "
            "their sum is the floor of many tasks once no one waits for the disk: "
            "`processor time / elapsed` of 32 tasks says how near that is. As a file "
            "each object also makes a name, which the file system does one by one. The "
            "faster the disk syncs, the less there is to share."
        ),
    ),
    Target(
        group="large",
        what="attach a 64 MiB file",
        against="cp and fsync of the copy",
        goal="<= 1.1 x",
        why_not=(
            "Both wait for the same bytes to reach the disk. The steps of `attach 64 MiB` "
            "say how much of the floor that wait is, what a copy by blocks and a sync cost "
            "in this process, and what one pass of BLAKE3 adds. A thread of its own for the "
            "hash gains nothing on two cores: the other one brings the bytes to the disk. Nor "
            "can it wait for the sync, since the digest says whether there is anything to "
            "sync. The name's sync is the last part."
        ),
    ),
    Target(
        group="duplicate",
        what="duplicate of 64 MiB",
        against="BLAKE3 of the file, mapped, all cores",
        goal="<= 1.2 x",
        why_not=(
            "A name is no proof, so both files are read: block by block the one offered is "
            "compared with the one stored, while another thread hashes the block before; then "
            "the stored one is synced. That takes at least one thread's time for the hash; the "
            "floor hashes with all cores. It also maps its one file: a mapping spares it the "
            "copy that reading makes, and would end the process if the file were cut "
            "meanwhile. What the parts cost by themselves stands in the steps of `duplicate "
            "64 MiB`: the hash of the stored object with its sync, a hash by one thread, and "
            "the reading alone, of which ours has two."
        ),
    ),
    Target(
        group="read",
        what="verified read 16 KiB / 64 MiB",
        against="open, read, BLAKE3 in one `run_in_executor` call / in memory",
        goal="<= 1.5 x / <= 1.1 x",
        why_not=(
            "The floor is mostly the way to a thread and back. Ours opens below the root "
            "link by link, asks for the file's kind and size, hashes, probes the header and "
            "compares it with the reference: see `read 16 KiB` below."
        ),
    ),
    Target(
        group="scan",
        what="scan of 10 000 mixed objects",
        against="hashing the same files, a thread per core",
        goal="<= 1.15 x, memory bounded",
        why_not=(
            "Besides hashing, every object is opened below its shard, checked for kind, mode"
            " and links, every log is read, and each picture's header is compared with what "
            "the log says, in Python and under its lock: the steps of `scan` say how much each "
            "of these takes in one thread. Only the hashing is shared by the cores."
        ),
    ),
    Target(
        group="append",
        what="durable append of a 500 B event",
        against="write and fdatasync in plain Python",
        goal="<= 1.25 x (with room of zeros at the log's end)",
        why_not=(
            "The sync itself is cheaper than the floor's, as the file keeps its length "
            "(`append 500 B: write into a zero-filled file, fdatasync`). What is on top is "
            "the way to a thread and back, and the event's check, encoding and chain: "
            "processor time, which weighs more where syncs are cheap."
        ),
    ),
    Target(
        group="replay",
        what="replay of a long session, chain checked",
        against="`json.loads` and BLAKE3 of each line",
        goal="<= 0.75 x",
        why_not=(
            "The steps of `replay` part it. The chain alone costs more than the floor's hash: each "
            "line is cut out, joined to the chain before it, hashed and compared. Decoding takes "
            "msgspec a fraction of what `json.loads` takes, but encoding the line anew, which "
            "shows that it means one thing only, takes as much again. The floor keeps nothing of "
            "a line; an event and a step are made of each, and handed to the caller one by one."
        ),
    ),
    Target(
        group="peers",
        what="the same work with other stores, at equal durability",
        against="each peer, called directly",
        goal="faster than every one: < 1 x",
        why_not=(
            "Blocking peers are called in the caller's thread, and read in another one as "
            "well; ours leaves the loop free, which costs the way to a thread and back (see "
            "the steps). Ours alone finds and probes the type, reads and hashes a "
            "duplicate's stored bytes again, and compares what it reads with the reference. "
            "SQLite and packs put many objects into one file, and need one commit where a "
            "file of its own needs two: that is the price of a store that can be read and "
            "mended with plain tools. A scan of few objects is mostly its start: 256 "
            "directories are listed, every log is opened."
        ),
    ),
    Target(
        group="events",
        what="durable and emitted events beside other ways",
        against="a line and fdatasync, a row of SQLite, OpenAI Agents' SQLiteSession",
        goal="append <= 1.54 x the line, <= 1 x the others; emit <= 0.05 x",
        why_not="As for the append: processor time in Python beside a sync that is cheap here.",
    ),
    Target(
        group="many small",
        what="10 000 texts of 1 KiB (case 151)",
        against="ours, one by one; the first tenth",
        goal="a batch is cheaper and syncs half as often; nothing grows with the number",
        why_not=(
            "A batch syncs each file once, and each of 256 directories once: 1,000 objects at "
            "a time cannot come below 0.63, nor 200 below 0.85. The file system joins what waits "
            "together into one commit of its journal, so the time falls by more than the number "
            "of calls. Times here are single figures: a neighbour on the machine shows in them. "
            "Counts do not vary."
        ),
    ),
    Target(
        group="xfs",
        what="attaches and appends, on XFS",
        against="as on ext4",
        goal="as on ext4",
        why_not=(
            "The calls are the same as on ext4, and so is what is said of them above. Here all "
            "quotients but those of 1 MiB are greater; why has not been measured: the steps are "
            "of ext4 only."
        ),
    ),
    Target(
        group="growth",
        what="1 000 to 100 000 objects in one store (1 000 000 with `--million`)",
        against="the smallest of them",
        goal="<= 1.25 x, a scan's memory <= 1.5 x",
        why_not=(
            "Directories with more entries take the file system longer to find a name in, "
            "and their blocks are read once. What a scan keeps of each object is in "
            "temporary files from a few thousand objects on."
        ),
    ),
    Target(
        group="listing",
        what="list 10 000 sessions",
        against="one second; a tenth of them, ten times",
        goal="< 1 s, <= 1.25 x",
        why_not=(
            "Seconds depend on the machine and on what else it does; the CPU seconds are "
            "this process's own."
        ),
    ),
    Target(
        group="start",
        what="start-up: `--help`, `put` of a small file, `import attachstore`",
        against="150 ms, 250 ms; 30 ms beside asyncio and msgspec",
        goal="<= the limit",
        why_not=(
            "What a process waits for is its start, its imports and, for `put`, its syncs; a "
            "test keeps a list of what each command loads. Of CPU is what it takes on a "
            "machine that does nothing else."
        ),
    ),
    Target(
        group="others",
        what="reading the end of a long session; a worker for a small picture",
        against="as each row says",
        goal="as each row says",
        why_not="See the rows.",
    ),
)
