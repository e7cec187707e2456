# tgrun test: models below folders and in archives, each in a child; what crashes, hangs or has no data; its reports
times() { sed -E 's/ +[0-9]+\.[0-9] s( |$)/ T\1/'; }
folder() { mkdir -p $1; cp $M/$2.onnx $1/model.onnx; cp -r $M/${2}_data/* $1 2>/dev/null; }
t test; t test nosuch; mkdir empty; t test empty
folder zoo/add add; folder zoo/deep/er/words words; folder zoo/nodata layers; folder zoo/unknown unknown; cp $M/misshapen.onnx $M/garbage.onnx zoo/deep
rm -r zoo/nodata/test_data_set_0; ln -s .. zoo/deep/up
folder wrong add; "$PYTHON" -c 'import sys; p = sys.argv[1]; b = bytearray(open(p, "rb").read()); b[-1] ^= 1; open(p, "wb").write(b)' wrong/test_data_set_1/output_0.pb
t test zoo wrong | times
t test -q zoo/add wrong --atol 100 | times
"$TGRUN_PROGRAM" test -q wrong zoo/add zoo/unknown --junit report.xml >/dev/null; sed -E 's/time="[0-9.]+"/time="T"/' report.xml
"$TGRUN_PROGRAM" test wrong zoo/nodata --json 2>/dev/null | keys
# several at a time: the same lines in the same order
t test zoo wrong --jobs 3 | times; t test zoo --jobs 0
# archives, given and below; nothing stays behind
mkdir tmp; export TMPDIR=$PWD/tmp
tar -czf zoo.tar.gz zoo/add zoo/unknown; mkdir -p hub/v; tar -cJf hub/v/words.tar.xz -C zoo/deep/er words; echo no archive > bad.tar.gz
t test zoo.tar.gz hub -j 2 | times; t test bad.tar.gz; ls tmp
# a child that is killed, one that hangs: here by its compiler
folder one add; printf '#!/bin/sh\nkill -KILL $PPID\n' > killer; printf '#!/bin/sh\nexec sleep 20\n' > sleeper; chmod +x killer sleeper
TGRUN_SANDBOX=off CC=$PWD/killer t test one zoo/deep/er -d cpu --no-cache | times
CC=$PWD/sleeper t test one -d cpu --no-cache --timeout 0.5 | times
tar -czf one.tar.gz one; CC=$PWD/sleeper timeout --preserve-status -s INT 1 "$TGRUN_PROGRAM" test one.tar.gz -d cpu --no-cache >/dev/null 2>&1; echo "exit $?"; find tmp -name 'tgrun.*'
