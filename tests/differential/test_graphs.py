"""The short run of graphs.py: fixed seeds, of each every 8th graph on the CPU, the others by the interpreter."""
import sys

from graphs import main

sys.exit(main("--seed 1 2 3 --count 250 --cpu-every 8".split()))
