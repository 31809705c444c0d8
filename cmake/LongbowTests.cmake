# One test program per layer, longbow_<layer>_test, from tests/<layer>/*.cpp and tests/support/*.cpp; it links
# that layer's objects and those below it. One ctest per *_test.cpp: its suites are read from the source.
# What needs a GPU stands in *_cuda_test.cpp, is built with LONGBOW_CUDA only and carries the label cuda; without it,
# LongbowEmulation.cmake runs some of these tests.
add_custom_target(longbow_tests)

function(longbow_suites result file)
  file(STRINGS ${file} lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
  set(filters "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "\\1" suite "${line}")
    list(APPEND filters "${suite}.*" "*/${suite}.*")
  endforeach()
  list(REMOVE_DUPLICATES filters)
  list(JOIN filters ":" joined)
  set(${result} "${joined}" PARENT_SCOPE)
endfunction()

# Tests spend their time in the code that they test: optimising their own would only take longer to build.
set(unoptimised $<$<COMPILE_LANGUAGE:CXX>:-O0>)
if(LONGBOW_PCH)
  longbow_add_pch(plain_tests_pch OPTIONS ${unoptimised} LINKS GTest::gtest longbow_parsers)
  longbow_add_pch(tests_pch OPTIONS ${unoptimised} LINKS GTest::gtest longbow_parsers longbow_torch)
endif()

function(longbow_test_flags target uses_torch)
  target_compile_options(${target} PRIVATE ${unoptimised})
  target_link_libraries(${target} PRIVATE longbow_flags longbow_fmt longbow_parsers GTest::gtest Threads::Threads)
  target_compile_definitions(${target} PRIVATE LONGBOW_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LONGBOW_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set(pch plain_tests_pch)
  if(uses_torch)
    set(pch tests_pch)
    target_link_libraries(${target} PRIVATE longbow_torch)
    target_compile_definitions(${target} PRIVATE LONGBOW_TEST_TORCH)
  endif()
  if(LONGBOW_PCH)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)  # as the precompiled header is
    target_precompile_headers(${target} REUSE_FROM longbow_${pch})
  endif()
endfunction()

# tests/support, compiled once for the layers that see LibTorch; the others need its main() alone.
file(GLOB support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
add_library(longbow_torch_support OBJECT ${support})
longbow_test_flags(longbow_torch_support ON)
add_library(longbow_plain_support OBJECT ${PROJECT_SOURCE_DIR}/tests/support/main.cpp)
longbow_test_flags(longbow_plain_support OFF)

function(longbow_layer_tests layer)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${layer}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  file(GLOB parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${layer}/*.cpp)
  if(NOT LONGBOW_CUDA)
    list(FILTER sources EXCLUDE REGEX "_cuda_test.cpp$")
    list(FILTER parts EXCLUDE REGEX "_cuda(_test)?.cpp$")
  endif()
  get_property(uses_torch GLOBAL PROPERTY longbow_torch_${layer})
  get_property(below GLOBAL PROPERTY longbow_below_${layer})
  set(objects "")
  foreach(used IN LISTS layer below)
    if(used)
      list(APPEND objects $<TARGET_OBJECTS:longbow_${used}>)
    endif()
  endforeach()
  set(program longbow_${layer}_test)
  if(uses_torch)
    add_executable(${program} ${parts} ${objects} $<TARGET_OBJECTS:longbow_torch_support>)
  else()
    add_executable(${program} ${parts} ${objects} $<TARGET_OBJECTS:longbow_plain_support>)
  endif()
  longbow_test_flags(${program} ${uses_torch})
  if(LONGBOW_CUDA)
    target_link_libraries(${program} PRIVATE CUDA::cudart)
  endif()
  add_dependencies(longbow_tests ${program})
  foreach(source IN LISTS sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    get_filename_component(name ${source} NAME_WE)
    longbow_suites(filters ${source})
    # The laws take longer than any other entry by far: in parts, so that no core waits for the other at the end.
    if(name STREQUAL "laws_test")
      foreach(part RANGE 3)
        add_test(NAME ${layer}.${name}.${part} COMMAND ${CMAKE_COMMAND} -E env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=${part}
          $<TARGET_FILE:${program}> "--gtest_filter=${filters}" --gtest_brief=1)
        set_tests_properties(${layer}.${name}.${part} PROPERTIES LABELS unit TIMEOUT 600)
      endforeach()
      continue()
    endif()
    add_test(NAME ${layer}.${name} COMMAND ${program} "--gtest_filter=${filters}" --gtest_brief=1)
    set(label unit)
    if(name MATCHES "_train_test$")
      set(label train)
    endif()
    if(name MATCHES "_cuda_test$")
      set(label cuda)
    endif()
    set_tests_properties(${layer}.${name} PROPERTIES LABELS ${label} TIMEOUT 600)
  endforeach()
endfunction()

foreach(layer IN LISTS layers)
  longbow_layer_tests(${layer})
endforeach()

# All public headers in one translation unit, and in another in reverse order: two headers that define the same name
# do not compile. Part of every build of the tests.
set(together "")
set(reversed "")
foreach(header IN LISTS headers)
  if(LONGBOW_CUDA OR NOT header MATCHES "/cuda/")
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(APPEND together "#include \"${header}\"\n")
    string(PREPEND reversed "#include \"${header}\"\n")
  endif()
endforeach()
foreach(order together reversed)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/headers_${order}.cpp CONTENT "${${order}}" @ONLY)
endforeach()
add_library(longbow_headers_test OBJECT ${PROJECT_BINARY_DIR}/generated/headers_together.cpp
  ${PROJECT_BINARY_DIR}/generated/headers_reversed.cpp)
target_link_libraries(longbow_headers_test PRIVATE longbow_flags longbow_torch longbow_fmt)
longbow_share_pch(longbow_headers_test)
add_dependencies(longbow_tests longbow_headers_test)

# The repository's own shape; needs no layer.
add_executable(longbow_layout_test tests/layout/layout.cpp tests/layout/layout_test.cpp $<TARGET_OBJECTS:longbow_plain_support>)
target_link_libraries(longbow_layout_test PRIVATE longbow_flags GTest::gtest)
target_compile_definitions(longbow_layout_test PRIVATE LONGBOW_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_dependencies(longbow_tests longbow_layout_test)
add_test(NAME layout.layout_test COMMAND longbow_layout_test --gtest_brief=1)
set_tests_properties(layout.layout_test PROPERTIES LABELS unit TIMEOUT 60)

# CTest names it as skipped where the collection of recorded cases is not there.
set_tests_properties(attention.parity_collection_test PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")

if(longbow_clones)
  add_test(NAME kernels.clones COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DPROGRAM=$<TARGET_FILE:longbow_kernels_test>
    -DSOURCES=${PROJECT_SOURCE_DIR}/longbow/kernels/cpu -P ${PROJECT_SOURCE_DIR}/tests/kernels/clones.cmake)
  set_tests_properties(kernels.clones PROPERTIES LABELS unit TIMEOUT 60)
endif()

# What kernels do on machines with fewer instructions.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  foreach(capability default avx2)
    add_test(NAME ops.older_machines.${capability} COMMAND longbow_ops_test --gtest_brief=1
      "--gtest_filter=TileAttention.*:FeatureAttention.*:BlockProduct.*:ExponentialFeatures.*:RowsProduct.*:ColumnsProduct.*:HeadFilter.*:BlockSoftmax.*:FeatureProduct.*:RandomProduct.*:SlotSoftmax.*:PackSoftmax.*:PairProduct.*:CausalProduct.*:DecayedProduct.*:ChannelTaps.*:IteratedInverse.*:Affine.*:StateSpace.*:RunningMean.*")
    set_tests_properties(ops.older_machines.${capability} PROPERTIES LABELS unit TIMEOUT 600
      ENVIRONMENT ATEN_CPU_CAPABILITY=${capability})
  endforeach()
endif()

# examples/consumer in every way that a user may take. Inside its build, longbow has neither CUDA nor sanitizers: where
# this build has neither, its objects are used there again.
set(reuse ON)
if(LONGBOW_CUDA OR LONGBOW_SANITIZE)
  set(reuse OFF)
endif()
foreach(way install find_package predict pkg_config add_subdirectory clean)
  add_test(NAME consumer.${way} COMMAND ${CMAKE_COMMAND} -DWAY=${way} -DSOURCE=${PROJECT_SOURCE_DIR} -DREUSE=${reuse}
    -DBUILD=${PROJECT_BINARY_DIR} -DCOMPILER=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/tests/consumer/consumer.cmake)
  set_tests_properties(consumer.${way} PROPERTIES LABELS consumer TIMEOUT 1200)
endforeach()
add_test(NAME consumer.named_paths COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_BINARY_DIR}/named_paths
  -P ${PROJECT_SOURCE_DIR}/tests/consumer/named_paths_test.cmake)
add_test(NAME consumer.runtime COMMAND ${CMAKE_COMMAND} -DCOMPILER=${CMAKE_CXX_COMPILER}
  -DMODULE=${PROJECT_SOURCE_DIR}/cmake/LongbowRuntime.cmake -DFOLDER=${PROJECT_BINARY_DIR}/runtime
  -P ${PROJECT_SOURCE_DIR}/tests/consumer/runtime_test.cmake)
set_tests_properties(consumer.named_paths consumer.runtime PROPERTIES LABELS unit TIMEOUT 120)
set_tests_properties(consumer.install PROPERTIES FIXTURES_SETUP consumer_prefix)
set_tests_properties(consumer.clean PROPERTIES FIXTURES_CLEANUP consumer_prefix)
set_tests_properties(consumer.find_package consumer.predict consumer.pkg_config consumer.add_subdirectory PROPERTIES FIXTURES_REQUIRED consumer_prefix)

# The tests of the program run the program.
if(TARGET longbow_cli_test AND TARGET longbow_program)
  add_dependencies(longbow_cli_test longbow_program)
endif()

# Small tensors: more threads would only wait for each other.
get_property(small_tests DIRECTORY PROPERTY TESTS)
list(FILTER small_tests INCLUDE REGEX "^(nn|models|tasks|train|predict|arena|cli)\\.")
if(small_tests)
  set_tests_properties(${small_tests} PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1)
endif()

# The longest come first, so that no core is idle at the end; CTest knows how long they take only after a first run.
get_property(long_tests DIRECTORY PROPERTY TESTS)
list(FILTER long_tests INCLUDE REGEX "^(attention\\.laws|cli\\.(main|resume|train)|train\\..*_train)_test")
if(long_tests)
  set_tests_properties(${long_tests} PROPERTIES COST 1000)
endif()
