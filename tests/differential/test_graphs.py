"""The short runs of graphs.py: fixed seeds and one of the day, of each every 8th graph on the CPU, the others by the interpreter; and some
graphs at several sizes. Faults are put where a row of disagreements.py explained something, and must be found."""
import sys
import time

from graphs import main

sys.exit(
    main(f"--seed 1 2 3 {time.strftime('%Y%m%d')} --count 250 --cpu-every 8 --plant".split())
    | main("--sizes --seed 4 --count 250 --cpu-every 25".split()))
