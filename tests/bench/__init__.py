"""Benchmarks: `python -m tests.bench [engine|import|sink|replay|memory]...`, ratios of one run.

Nothing here asserts a time. What is compared runs in turns, on the same bytes, and gives the
same results, which is checked before a figure is printed.
"""
