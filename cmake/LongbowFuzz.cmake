# One libFuzzer program per reader, longbow_<reader>_fuzz, from tests/fuzz/<reader>_fuzz.cpp. It links core and the
# sources named here, each built once with the sanitizers. One ctest each, with the label fuzz: a few seconds from the
# seeds in tests/fuzz/corpus/<reader>; what is worth keeping of a run stays in <build>/corpus/<reader>.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "libFuzzer comes with clang: CC=clang CXX=clang++ cmake --preset fuzz")
endif()
set(LONGBOW_FUZZ_SECONDS 3 CACHE STRING "Seconds that ctest gives each reader")
add_custom_target(longbow_fuzz)
if(LONGBOW_PCH)
  longbow_add_pch(plain_pch LINKS longbow_parsers)
endif()

function(longbow_fuzz_flags target torch)
  target_link_libraries(${target} PRIVATE longbow_flags longbow_fmt)
  if(torch)
    target_link_libraries(${target} PRIVATE longbow_torch)
    longbow_share_pch(${target})
  elseif(LONGBOW_PCH)
    target_precompile_headers(${target} REUSE_FROM longbow_plain_pch)
  endif()
endfunction()

# longbow_fuzz_reader(NAME [TORCH] [SOURCES source...])
function(longbow_fuzz_reader name)
  cmake_parse_arguments(reader "TORCH" "" "SOURCES" ${ARGN})
  set(objects $<TARGET_OBJECTS:longbow_core>)
  foreach(source IN LISTS reader_SOURCES)
    string(MAKE_C_IDENTIFIER longbow_fuzz_${source} library)
    if(NOT TARGET ${library})
      add_library(${library} OBJECT ${PROJECT_SOURCE_DIR}/longbow/${source})
      longbow_fuzz_flags(${library} "${reader_TORCH}")
      target_link_libraries(${library} PRIVATE longbow_parsers)
    endif()
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endforeach()
  set(program longbow_${name}_fuzz)
  add_executable(${program} ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cpp ${objects})
  longbow_fuzz_flags(${program} "${reader_TORCH}")
  target_compile_options(${program} PRIVATE -fPIC)  # as the precompiled header is
  target_link_libraries(${program} PRIVATE longbow_parsers Threads::Threads)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  add_dependencies(longbow_fuzz ${program})
  set(kept ${PROJECT_BINARY_DIR}/corpus/${name})
  file(MAKE_DIRECTORY ${kept})
  add_test(NAME fuzz.${name} COMMAND ${program} -seed=1 -max_total_time=${LONGBOW_FUZZ_SECONDS} -max_len=4096 -timeout=5
    -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix=${PROJECT_BINARY_DIR}/corpus/${name}-
    ${kept} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 600 ENVIRONMENT OMP_NUM_THREADS=1)
endfunction()

# The tokenizers, as far as a file or a text reaches.
file(GLOB_RECURSE longbow_text_sources RELATIVE ${PROJECT_SOURCE_DIR}/longbow
  ${PROJECT_SOURCE_DIR}/longbow/text/unicode/*.cpp ${PROJECT_SOURCE_DIR}/longbow/text/components/*.cpp
  ${PROJECT_SOURCE_DIR}/longbow/text/models/*.cpp ${PROJECT_SOURCE_DIR}/longbow/text/tokenizer/*.cpp
  ${PROJECT_SOURCE_DIR}/longbow/text/formats/*.cpp)

longbow_fuzz_reader(yaml)
longbow_fuzz_reader(json)
longbow_fuzz_reader(tsv SOURCES data/readers/tsv.cpp)
longbow_fuzz_reader(symbols SOURCES data/readers/symbols.cpp data/readers/tsv.cpp data/samples/text_codec.cpp
  ${longbow_text_sources})
longbow_fuzz_reader(manifest SOURCES data/readers/manifest.cpp data/samples/dataset.cpp)
longbow_fuzz_reader(facts SOURCES data/samples/facts.cpp data/samples/dataset.cpp)
longbow_fuzz_reader(record SOURCES report/table/load_record.cpp report/table/metrics.cpp report/table/number.cpp)
longbow_fuzz_reader(metrics SOURCES report/table/metrics.cpp)
set(corpus_files corpus/files/byte_source.cpp corpus/files/text_file.cpp corpus/files/utf8_scan.cpp)
set(corpus_rows corpus/readers/record.cpp corpus/readers/json_stream.cpp corpus/readers/json_rows.cpp
  corpus/readers/delimited_rows.cpp corpus/readers/number.cpp corpus/readers/table_format.cpp)
longbow_fuzz_reader(png SOURCES corpus/files/png.cpp)
longbow_fuzz_reader(tar SOURCES ${corpus_files} corpus/files/tar.cpp)
longbow_fuzz_reader(idx SOURCES data/readers/idx.cpp)
longbow_fuzz_reader(text_file SOURCES ${corpus_files})
longbow_fuzz_reader(table SOURCES ${corpus_files} ${corpus_rows} corpus/readers/table.cpp)
longbow_fuzz_reader(questions SOURCES ${corpus_files} corpus/readers/record.cpp corpus/readers/json_stream.cpp
  corpus/readers/questions.cpp)
longbow_fuzz_reader(safetensors TORCH SOURCES tensors/safetensors.cpp)
longbow_fuzz_reader(checkpoint TORCH SOURCES train/run/checkpoint.cpp tensors/safetensors.cpp)
longbow_fuzz_reader(tokenizer_json SOURCES ${longbow_text_sources})
longbow_fuzz_reader(sentencepiece SOURCES ${longbow_text_sources})
longbow_fuzz_reader(encode SOURCES ${longbow_text_sources})
