"""`python -m attachstore` is `attachstore`."""

import sys

from attachstore.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
