# Tests of a cross build, beside the C tests that run under the emulator as they are: scripts/aarch64 fills sample/ with
# cases of the standard, light/ with models, and runs them on processors with more and with fewer instructions.
foreach(processor IN ITEMS max neoverse-n1 cortex-a72)
    set(emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
    list(TRANSFORM emulator REPLACE "^max$" ${processor})
    add_test(NAME emulated_nodes_${processor} COMMAND ${emulator} $<TARGET_FILE:test_onnx_conformance> -d cpu ${CMAKE_BINARY_DIR}/sample)
    foreach(model IN ITEMS squeezenet shufflenet)
        set(folder ${CMAKE_BINARY_DIR}/light/light_${model})
        add_test(NAME emulated_${model}_${processor} COMMAND ${emulator} $<TARGET_FILE:tgrun> ${folder}/model.onnx --test-data ${folder} --runs 1 -q --no-cache)
    endforeach()
endforeach()
