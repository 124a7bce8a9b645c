# kymo_library(NAME SOURCES a.c b.c [LINK libs]): a static library of one room.
function(kymo_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_LINK} PRIVATE kymo_flags)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
endfunction()

# kymo_program(NAME SOURCES ... LINK ...): an installed executable.
function(kymo_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LINK} kymo_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# kymo_test(NAME SOURCES ... LINK ... [LABELS ...]): a cmocka test registered with CTest, run from the source tree.
function(kymo_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LINK} cmocka kymo_flags)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${KYMO_TEST_TIMEOUT} LABELS "unit;${A_LABELS}")
endfunction()

# kymo_fuzz(NAME SOURCES ... LINK ...): with KYMO_FUZZ a libFuzzer target; always a replay program registered with CTest that
# feeds every file of tests/fuzz/corpus/NAME through the same entry point.
function(kymo_fuzz name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  if(KYMO_FUZZ)
    add_executable(fuzz_${name} ${A_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE ${A_LINK} kymo_flags)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endif()
  add_executable(replay_${name} ${A_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
  target_link_libraries(replay_${name} PRIVATE ${A_LINK} kymo_flags)
  add_test(NAME replay_${name} COMMAND replay_${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(replay_${name} PROPERTIES TIMEOUT ${KYMO_TEST_TIMEOUT} LABELS fuzz)
endfunction()

# Third-party libraries, found once.
find_package(PkgConfig REQUIRED)
foreach(pkg libprotobuf-c libzstd libarchive jansson libcrypto inih libssl libuv libisal libcurl libmicrohttpd libseccomp libsystemd sqlite3)
  string(REPLACE "-" "_" key ${pkg})
  pkg_check_modules(${key} REQUIRED IMPORTED_TARGET ${pkg})
endforeach()
