"""Benchmarks of Spectral VMamba. `python -m benchmarks` runs the suite; the other files are scripts of their own."""
