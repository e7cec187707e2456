"""docs/api.md is what scripts/api_reference.py makes of the header and the Python package, and every public function and
class has a docstring."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "api_reference.py"


def printed(*args):
    return subprocess.run([sys.executable, SCRIPT, *args], capture_output=True, text=True, check=True).stdout


missing, page = printed("--check").split("\n"), printed()
wrong = [line + ": no docstring" for line in missing if line]
if (ROOT / "docs" / "api.md").read_text() != page:
    wrong.append("docs/api.md differs from what scripts/api_reference.py prints")
print("\n".join(wrong) or "2 of 2: the page and its docstrings")
sys.exit(bool(wrong))
