"""The first lines of the command: Ctrl-C is understood before anything else is imported."""

import sys


def main() -> int:
    """Run `attachstore`; return its exit status."""
    try:
        from attachstore.cli.main import main as run

        return run()
    except KeyboardInterrupt:  # while modules were loaded; later it is handled where work is done
        sys.stderr.write("attachstore: interrupted: nothing was begun\n")
        return 130
