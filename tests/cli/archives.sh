# tgrun test: archives of every form, and such as would write elsewhere, or are broken
mkdir tmp; export TMPDIR=$PWD/tmp
"$PYTHON" - "$M" <<'END'
import gzip, io, pathlib, sys, tarfile
models = pathlib.Path(sys.argv[1])
add, long = (models / "add.onnx").read_bytes(), "deep/" * 50 + "x" * 120

def member(name, data=add, **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data

def archive(name, *members, mode="w:gz", form=tarfile.GNU_FORMAT):
    with tarfile.open(name, mode, format=form) as t:
        for info, data in members:
            t.addfile(info, io.BytesIO(data))

for name, mode in (("plain.tar", "w"), ("gzip.tgz", "w:gz"), ("xz.tar.xz", "w:xz"), ("other.tar.gz", "w:xz")):
    archive(name, member("./", b"", type=tarfile.DIRTYPE), member("./m/model.onnx"), member("m/none/", b"", type=tarfile.DIRTYPE), mode=mode)
for name, form in (("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
    archive(f"long_{name}.tar.gz", member(f"{long}/model.onnx"), form=form)
archive("prefix.tar.gz", member("p" * 90 + "/" + "q" * 60 + "/model.onnx"), form=tarfile.USTAR_FORMAT)
good = member("m/model.onnx")
for name, bad in (("absolute", member(str(pathlib.Path("out").absolute()))), ("up", member("../out")), ("up_inside", member("m/../../out")), ("double", member("m//out")),
                  ("symbolic", member("m/link", b"", type=tarfile.SYMTYPE, linkname="/")), ("hard", member("m/link", b"", type=tarfile.LNKTYPE, linkname="m/model.onnx")),
                  ("fifo", member("m/fifo", b"", type=tarfile.FIFOTYPE)), ("through", member("m/model.onnx/out")), ("unnamed", member("", b"abc")), ("escaped", member("../\033[2J\n"))):
    archive(f"bad_{name}.tar.gz", good, bad)
whole = gzip.decompress(pathlib.Path("gzip.tgz").read_bytes())
broken = {"cut": whole[:1600], "garbage": b"none" * 300, "short": b"none", "empty": b"", "flipped": whole[:700] + bytes([whole[700] ^ 1]) + whole[701:],
          "sum": whole[:520] + b"Z" + whole[521:], "vast": whole[:512] + member("vast")[0].tobuf()[:124] + b"\x80" + b"\xff" * 11 + whole[648:]}
for name, data in broken.items():
    pathlib.Path(f"broken_{name}.tar.gz").write_bytes(gzip.compress(data, mtime=0))
packed = pathlib.Path("gzip.tgz").read_bytes()
pathlib.Path("broken_packed.tar.gz").write_bytes(packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:])
pathlib.Path("broken_end.tar.gz").write_bytes(packed[:-6])
pathlib.Path("broken_xz.tar.xz").write_bytes(pathlib.Path("xz.tar.xz").read_bytes()[:-40])
END
for a in *.t*z *.tar; do t test -q $a; done 2>&1 | sed -E "s,$PWD,HERE,"
ls tmp; ls out 2>&1
