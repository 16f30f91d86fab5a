"""The `attachstore` command: a thin skin over the library.

Each command parses, calls the library, prints, and returns an exit status. Data goes to standard
output, everything else to standard error. Nothing heavy is imported before a command runs:
`attachstore --help` loads click and this package only (tests/cli/test_help.py).
"""
