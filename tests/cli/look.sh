# verbs that look at a model
t info $M/add.onnx -d cpu | sed 's/xxh3 .*/xxh3/'
# how much is packed is the machine's
t info $M/layers.onnx -d cpu | grep -E 'repeats|memory|exit' | sed -E 's/[0-9.]+ (KiB|B)/N/g'
t -q $M/layers.onnx -d cpu --runs 1 --test-data $M/layers_data
t dump $M/add.onnx --stage graph -d reference | grep -E 'ADD|exit'
for s in graph callify functions calls rangeify layout choices optimize expand select linearize memplan plan source; do echo "$s $(t dump $M/add.onnx --stage $s -d cpu | tail -1)"; done
t --version
t --help | head -3
t --completion bash | cut -c1-60
t ops | grep -E '^ai.onnx +Conv |^com.microsoft +Gelu|versions of the standard|exit'
t profile $M/add.onnx -d cpu 2>/dev/null | grep -oE "^ *share|sum of kernels|exit 0"
"$TGRUN_PROGRAM" profile $M/add.onnx -d cpu --json | keys | sed '/peak\|roof\|level/s/ .*/ or null/'
for v in run info check tune compile profile bisect diff dump test cache ops env; do "$TGRUN_PROGRAM" $v --help | sed -n '1p;/^options of every/p' | tr '\n' ' '; echo; done
for what in "info $M/add.onnx -q" ops env --help "check --help" "--completion bash"; do "$TGRUN_PROGRAM" $what 2>&1 >/dev/full; echo "exit $?"; done
