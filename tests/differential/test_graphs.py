"""The short runs of graphs.py: fixed seeds, of each every 8th graph on the CPU, the others by the interpreter; and some
graphs at several sizes."""
import sys

from graphs import main

sys.exit(
    main("--seed 1 2 3 --count 250 --cpu-every 8".split())
    | main("--sizes --seed 4 --count 250 --cpu-every 25".split()))
