"""Benchmarks on the testbed: contenders side by side on one running cluster."""
