"""Tests of the harness; run `python3 -m unittest` in bench/."""
