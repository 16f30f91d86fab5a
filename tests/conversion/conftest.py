"""Thousands of small stores are made here: in memory, where there is one."""

from tests.objects.conftest import memory_path

__all__ = ["memory_path"]
