# One libFuzzer program per reader, longbow_<reader>_fuzz, from tests/fuzz/<reader>_fuzz.cpp. It links core and the
# sources named here, so that little is built with sanitizers. One ctest each, with the label fuzz: a few seconds from
# the seeds in tests/fuzz/corpus/<reader>; what is worth keeping of a run stays in <build>/corpus/<reader>.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "libFuzzer comes with clang: CC=clang CXX=clang++ cmake --preset fuzz")
endif()
set(LONGBOW_FUZZ_SECONDS 5 CACHE STRING "Seconds that ctest gives each reader")
add_custom_target(longbow_fuzz)

# longbow_fuzz_reader(NAME [TORCH] [SOURCES source...])
function(longbow_fuzz_reader name)
  cmake_parse_arguments(reader "TORCH" "" "SOURCES" ${ARGN})
  set(program longbow_${name}_fuzz)
  list(TRANSFORM reader_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/longbow/)
  add_executable(${program} ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cpp ${reader_SOURCES} $<TARGET_OBJECTS:longbow_core>)
  target_link_libraries(${program} PRIVATE longbow_flags fmt::fmt-header-only yaml-cpp Threads::Threads)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  if(reader_TORCH)
    target_link_libraries(${program} PRIVATE longbow_torch)
  endif()
  add_dependencies(longbow_fuzz ${program})
  set(kept ${PROJECT_BINARY_DIR}/corpus/${name})
  file(MAKE_DIRECTORY ${kept})
  add_test(NAME fuzz.${name} COMMAND ${program} -seed=1 -max_total_time=${LONGBOW_FUZZ_SECONDS} -max_len=4096 -timeout=5
    -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix=${PROJECT_BINARY_DIR}/corpus/${name}-
    ${kept} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 600 ENVIRONMENT OMP_NUM_THREADS=1)
endfunction()

longbow_fuzz_reader(yaml)
longbow_fuzz_reader(json)
longbow_fuzz_reader(tsv SOURCES data/readers/tsv.cpp)
longbow_fuzz_reader(symbols SOURCES data/readers/symbols.cpp data/readers/tsv.cpp)
longbow_fuzz_reader(manifest SOURCES data/readers/manifest.cpp data/samples/dataset.cpp)
longbow_fuzz_reader(facts SOURCES data/samples/facts.cpp data/samples/dataset.cpp)
longbow_fuzz_reader(record SOURCES report/table/load_record.cpp report/table/metrics.cpp report/table/number.cpp)
longbow_fuzz_reader(metrics SOURCES report/table/metrics.cpp)
longbow_fuzz_reader(safetensors TORCH SOURCES tensors/safetensors.cpp)
longbow_fuzz_reader(checkpoint TORCH SOURCES train/run/checkpoint.cpp tensors/safetensors.cpp)
