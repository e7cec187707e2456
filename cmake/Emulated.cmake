# Tests of a cross build, beside the C tests that run under the emulator as they are: scripts/aarch64 fills sample/ with
# cases of the standard, light/ with models, and runs them on processors with more and with fewer instructions.
foreach(processor IN ITEMS sve256 sve512 neoverse-n1 cortex-a72)
    string(REGEX REPLACE "^sve512$" "max" type ${processor})
    string(REGEX REPLACE "^sve256$" "max,sve-default-vector-length=32" type ${type})
    list(TRANSFORM CMAKE_CROSSCOMPILING_EMULATOR REPLACE "^max.*" ${type} OUTPUT_VARIABLE emulator)
    add_test(NAME emulated_nodes_${processor} COMMAND ${emulator} $<TARGET_FILE:test_onnx_conformance> -d cpu ${CMAKE_BINARY_DIR}/sample)
    foreach(model IN ITEMS squeezenet shufflenet)
        set(folder ${CMAKE_BINARY_DIR}/light/light_${model})
        add_test(NAME emulated_${model}_${processor} COMMAND ${emulator} $<TARGET_FILE:tgrun> ${folder}/model.onnx --test-data ${folder} --runs 1 -q --no-cache)
    endforeach()
endforeach()
