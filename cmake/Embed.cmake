# tg_embed(TARGET NAME FILE): adds FILE to TARGET as `const char NAME[]`, zero-terminated; configures again when FILE
# changes.
function(tg_embed target name file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    set(source ${CMAKE_CURRENT_BINARY_DIR}/embed_${name}.c)
    file(CONFIGURE OUTPUT ${source} CONTENT "extern const char ${name}[];\nconst char ${name}[] = {${bytes}0};\n" @ONLY)
    target_sources(${target} PRIVATE ${source})
endfunction()
