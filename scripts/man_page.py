"""man_page.py PAGE PROGRAM..: a manual page from what the program's --help prints, so that the option rows are its only
source."""
import os
import subprocess
import sys


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def rows(lines):
    """(name, text) of lines such as `  -q, --quiet     only errors`: two blanks part them, or one where a name is
                                                        long."""
    for line in lines:
        line = line.strip()
        name, found, text = line.partition("  ")
        if not found and line.startswith("-"):
            name, _, text = line.partition(" (")
            text = "(" + text if text else ""
        yield name.strip(), text.strip()


def main():
    page, *program = sys.argv[1:]       # an emulator may stand before it
    name = os.path.basename(program[-1])
    said = subprocess.run([*program, "--help"], check=True, capture_output=True, text=True).stdout
    version = subprocess.run([*program, "--version"], check=True, capture_output=True, text=True).stdout.split("\n")[0]
    usage, *blocks = said.strip().split("\n\n")
    out = [
        f'.TH {name.upper()} 1 "" "{escape(version)}" "User Commands"', ".SH NAME",
        f"{name} \\- runs or compares ONNX models", ".SH SYNOPSIS"
    ]
    out += [f".B {escape(line.strip())}" for line in usage.splitlines()]
    for block in blocks:
        title, *lines = block.splitlines()
        heading, _, rest = title.partition(":")
        out.append(f".SH {escape(heading.split('(')[0].strip().upper())}")
        if "(" in heading:
            out.append(escape(heading[heading.index("(") + 1 :].rstrip(")")) + ".")
        if rest.strip():
            out.append(escape(rest.strip()))
        if lines and all(line.startswith("  ") for line in lines):
            for key, text in rows(lines):
                out += [".TP", f".B {escape(key)}", escape(text) or "\\&"]
        else:
            out += [escape(line.strip()) for line in lines]
    with open(page, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
