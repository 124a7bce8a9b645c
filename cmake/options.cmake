# Compiler options for all of our code, and the sanitizer and fuzz switches that the presets set.
set(KYMO_SANITIZE "" CACHE STRING "Value of -fsanitize= for all code, such as address,undefined")
option(KYMO_FUZZ "Build libFuzzer targets (clang)" OFF)
option(KYMO_COVERAGE "Instrument for gcov" OFF)

add_library(kymo_flags INTERFACE)
target_compile_definitions(kymo_flags INTERFACE _GNU_SOURCE KYMO_VERSION="${PROJECT_VERSION}")
target_compile_options(kymo_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes
  -Wmissing-prototypes -Werror -fno-common -fvisibility=hidden)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  # Part of clang's -Wconversion, not of gcc's: one rule for both.
  target_compile_options(kymo_flags INTERFACE -Wno-sign-conversion)
endif()
target_include_directories(kymo_flags INTERFACE ${CMAKE_SOURCE_DIR})
if((KYMO_SANITIZE OR KYMO_COVERAGE) AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # Instrumented code defeats gcc's range analysis; these warnings then speak about cases that cannot be.
  target_compile_options(kymo_flags INTERFACE -Wno-format-truncation -Wno-maybe-uninitialized -Wno-stringop-overflow
    -Wno-stringop-truncation)
endif()
# Seconds for one test; instrumented ones take ten times as long.
set(KYMO_TEST_TIMEOUT 120)
if(KYMO_SANITIZE OR KYMO_COVERAGE)
  set(KYMO_TEST_TIMEOUT 600)
endif()
if(KYMO_SANITIZE)
  target_compile_options(kymo_flags INTERFACE -fsanitize=${KYMO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(kymo_flags INTERFACE -fsanitize=${KYMO_SANITIZE})
endif()
if(KYMO_FUZZ)
  target_compile_options(kymo_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(KYMO_COVERAGE)
  target_compile_options(kymo_flags INTERFACE --coverage)
  target_link_options(kymo_flags INTERFACE --coverage)
endif()
