# What `cmake --install` puts under a prefix: the programs, the library with its header, a pkg-config file and a CMake
# package, man pages and completions that the programs print themselves.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# An installed program finds the library of its own prefix, wherever that is moved, or beside itself (the wheel).
set(up "")
string(REGEX MATCHALL "[^/]+" parts ${CMAKE_INSTALL_BINDIR})
foreach(part IN LISTS parts)
    string(APPEND up "/..")
endforeach()
foreach(program IN ITEMS tgrun tgbench)
    if(NOT TARGET ${program})
        continue()
    endif()
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN${up}/${CMAKE_INSTALL_LIBDIR};$ORIGIN")
    install(TARGETS ${program} COMPONENT programs)
    set(page ${CMAKE_BINARY_DIR}/${program}.1)
    set(completion ${CMAKE_BINARY_DIR}/completions/${program})
    add_custom_command(OUTPUT ${page} ${completion}
        COMMAND ${TGRUN_PYTHON} ${CMAKE_SOURCE_DIR}/scripts/man_page.py ${page} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completions
        COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}> --completion bash > ${completion}
        DEPENDS ${program} ${CMAKE_SOURCE_DIR}/scripts/man_page.py VERBATIM)
    add_custom_target(${program}_pages ALL DEPENDS ${page} ${completion})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
    install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
endforeach()
install(TARGETS tgrun-worker DESTINATION ${CMAKE_INSTALL_LIBDIR}/tgrun COMPONENT library)
install(TARGETS tgrun_shared LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(FILES include/tgrun.h TYPE INCLUDE COMPONENT development)

file(RELATIVE_PATH PC_INCLUDE ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/tgrun.pc.in tgrun.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tgrun.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
configure_package_config_file(cmake/tgrunConfig.cmake.in tgrunConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tgrun PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(tgrunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tgrunConfig.cmake ${CMAKE_BINARY_DIR}/tgrunConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tgrun COMPONENT development)
