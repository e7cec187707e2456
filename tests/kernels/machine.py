"""What the processor has that kernels are made for, as `tgrun env` says; TGRUN_PROCESSOR counts."""
import os
import pathlib
import subprocess

environment = subprocess.run([pathlib.Path(os.environ["BUILD_DIR"]) / "tgrun", "env"], capture_output=True, text=True,
                             check=True).stdout
has_vectors_of_32_bytes = "avx" in environment
has_own_code = "avx512" in environment or "avx2 fma" in environment
