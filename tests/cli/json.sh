# the shape of JSON results and errors: fields are only ever added
"$TGRUN_PROGRAM" -q $M/add.onnx --test-data $M/add_data --runs 3 --json | keys
"$TGRUN_PROGRAM" info $M/add.onnx --json | keys
"$TGRUN_PROGRAM" check $M/unknown.onnx --json 2>/dev/null
"$TGRUN_PROGRAM" ops --json | keys
"$TGRUN_PROGRAM" env --json | keys
t -q $M/misshapen.onnx --json
t -q $M/add.onnx --runs 1 --json=result.json; ls
# a pipe stays one
mkfifo pipe; cat pipe >whole.json & t -q $M/add.onnx --test-data $M/add_data --runs 1 --json=pipe; wait; test -p pipe && keys <whole.json | grep "^.exit"
