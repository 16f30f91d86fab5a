"""What goes wrong inside the process: interrupts, allocations that fail, cancellation.

bytecodes.py      KeyboardInterrupt before a bytecode of the package
allocations.py    MemoryError from an allocation of the process
awaits.py         cancellation of the task at a point where it waits
server.py         the process that does this to forked children (rig_interruptions.py)
"""
