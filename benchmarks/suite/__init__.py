"""The benchmark suite: this package and other implementations, measured in one process and reported as ratios.

A section is `measure_*` (returns numbers), `format_*` (returns tables and text) and `plot_*` (returns a figure);
`runner.py` lists the sections.
"""
