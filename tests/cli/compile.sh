# a compiled model: what it is for, what is refused, and that it is there whole or not at all
t compile $M/add.onnx --test-data $M/add_data/test_data_set_0 -o add.tgc -d cpu -t 1 | sed 's/[0-9.]* KiB/N KiB/'
bare() { env -i PATH=/nowhere XDG_CACHE_HOME=$PWD "$TGRUN_PROGRAM" "$@" 2>&1; echo "exit $?"; }
bare add.tgc --test-data $M/add_data/test_data_set_0 --no-cache -q --runs 1
bare add.tgc -i x=f32[1,3]:1,2,3 -i y=f32[1,3]:4,5,6 -o - -q --runs 1
bare add.tgc --test-data $M/add_data/test_data_set_1 -q --runs 1
for more in '-d reference' '-d cuda' '-t 2' '--precision fast' '--dim n=1..4' '--tune 1' '--opts e:'; do bare add.tgc -s x=1,3 -s y=1,3 -i random -q --runs 1 $more; done
t compile $M/add.onnx --dim n=1..8 -o range.tgc -d cpu -t 1 -q >/dev/null
bare range.tgc -i x=f32[2,3]:1,2,3,4,5,6 -i y=f32[2,3]:1,1,1,1,1,1 -o - -q --runs 1
bare range.tgc -s x=9,3 -s y=9,3 -q --runs 1
t compile $M/words.onnx --test-data $M/words_data -o words.tgc -d cpu -q >/dev/null
bare words.tgc --test-data $M/words_data -q --runs 1
t info add.tgc -q | cut -c1-60
t check add.tgc
t tune add.tgc --tune 1 -q
t compile add.tgc -o again.tgc -q
t compile $M/add.onnx -q
t compile $M/add.onnx -o nosuch/add.tgc -q
t compile $M/add.onnx -o add2.tgc -d reference -q
t compile $M/parts.onnx -o parts.tgc -d cpu -q >/dev/null
bare parts.tgc -i f32[3]:1,2,3 --runs 1 -q
# for a lesser class of processors, to which this one belongs too
TGRUN_PROCESSOR=sse2 t compile $M/parts.onnx -o lesser.tgc -d cpu -q >/dev/null
bare lesser.tgc -i f32[3]:1,2,3 --runs 1 -q
"$TGRUN_PROGRAM" compile $M/add.onnx -o json.tgc -d cpu -q --json | keys
head -c 5000 add.tgc >cut.tgc; t cut.tgc -q
printf x | dd of=add.tgc bs=1 seek=4100 conv=notrunc status=none; t add.tgc -q -s x=1,3 -s y=1,3
ls | sort | tr '\n' ' '; echo
# C source: a folder that is there whole or not at all, and runs where a C compiler is
t compile $M/add.onnx --format c -s x=1,3 -s y=1,3 -o add_c -t 1 | sed 's/[0-9.]* KiB/N KiB/'
ls add_c | tr '\n' ' '; echo; make -s -C add_c 2>&1
printf '\0\0\200?\0\0\0@\0\0@@' >x.bin; add_c/add_c x.bin x.bin y.bin && od -A n -f y.bin
add_c/add_c x.bin y.bin; echo "exit $?"
printf '\0\0\200?' >short.bin; add_c/add_c x.bin short.bin y.bin; echo "exit $?"
t compile $M/add.onnx --format c -s x=1,3 -s y=1,3 -o add_c -q
t compile $M/add.onnx --format c -s x=1,3 -s y=1,3 -o nosuch/add_c -q
t compile $M/add.onnx --format c -d cpu -o other -q
t compile $M/add.onnx --format c --tune 1 -s x=1,3 -s y=1,3 -o other -q
t compile $M/add.onnx --format exe -o other -q
t compile $M/words.onnx --format c --test-data $M/words_data -o other -q
t $M/add.onnx -d c -s x=1,3 -s y=1,3 -q
t compile $M/add.onnx --format c11 --dim n=1..8 -o range_c -t 1 | sed 's/[0-9.]* KiB/N KiB/'; make -s -C range_c
range_c/range_c n=1 x.bin x.bin y.bin && od -A n -f y.bin
range_c/range_c n=9 x.bin x.bin y.bin; echo "exit $?"
# what tgbench has under the name of --format is no word for compile
TGRUN_FORMAT=json t compile $M/add.onnx -s x=1,3 -s y=1,3 -o env.tgc -d cpu -t 1 -q >/dev/null
TGRUN_COMPILE_FORMAT=c11 t compile $M/add.onnx -s x=1,3 -s y=1,3 -o env -t 1 -q >/dev/null
ls -d env env.tgc other 2>/dev/null
mkfifo pipe; t compile $M/add.onnx -s x=1,3 -s y=1,3 -o pipe -d cpu -t 1 -q; ls -d pipe*
