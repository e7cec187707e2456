"""sample.py FOLDER N FIRST: into FOLDER every N-th of the standard's node tests, from number FIRST % N on."""
import os
import pathlib
import shutil
import sys

import cases

folder, n, first = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
every = sorted(case for case in cases.node_folder().iterdir() if case.is_dir())
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
for case in every[first % n :: n]:
    os.symlink(case.resolve(), folder / case.name)
