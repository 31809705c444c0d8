# Tests that need a GPU, on an emulated one (tests/emulation), for machines without: their programs run the CUDA kernels
# as C++, and LibTorch's device cuda:0 in host memory.
if(LONGBOW_CUDA OR LONGBOW_SANITIZE OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  return()  # threads of a block are fibers, which are written for x86-64 and which sanitizers do not follow
endif()
set(emulation ${PROJECT_SOURCE_DIR}/tests/emulation)

function(longbow_emulated target)
  target_include_directories(${target} BEFORE PRIVATE ${emulation}/include)
  target_compile_options(${target} PRIVATE -Wno-conversion)
  target_link_libraries(${target} PRIVATE longbow_flags longbow_fmt)
endfunction()

file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/longbow/kernels/cuda/*.cu)
set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
set_source_files_properties(${emulation}/block.cpp ${emulation}/matrices.cpp PROPERTIES
  COMPILE_OPTIONS "-O3;-fno-sanitize=all")
add_library(longbow_emulated_kernels OBJECT ${kernels} ${emulation}/block.cpp ${emulation}/matrices.cpp)
longbow_emulated(longbow_emulated_kernels)
target_compile_definitions(longbow_emulated_kernels PRIVATE __CUDACC__)
# An address that is not aligned ends the program, as on a GPU, and so does an index outside of an array.
target_compile_options(longbow_emulated_kernels PRIVATE -x c++ -O1 -w -fno-strict-aliasing
  -fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error)

file(GLOB ops CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/longbow/ops/cuda/*.cpp)
add_library(longbow_emulated_ops OBJECT ${ops} ${emulation}/device.cpp)
longbow_emulated(longbow_emulated_ops)
target_link_libraries(longbow_emulated_ops PRIVATE longbow_torch)
longbow_share_pch(longbow_emulated_ops ops_pch)

# longbow_emulated_program(PROGRAM LAYER SOURCE...): of a layer and those below it.
function(longbow_emulated_program program layer)
  get_property(below GLOBAL PROPERTY longbow_below_${layer})
  set(objects "")
  foreach(used IN LISTS layer below)
    list(APPEND objects $<TARGET_OBJECTS:longbow_${used}>)
  endforeach()
  add_executable(${program} ${ARGN} ${objects}
    $<TARGET_OBJECTS:longbow_emulated_kernels> $<TARGET_OBJECTS:longbow_emulated_ops>)
  longbow_test_flags(${program} ON)
  target_include_directories(${program} BEFORE PRIVATE ${emulation}/include)
  add_dependencies(longbow_tests ${program})
endfunction()

# longbow_emulated_tests(PROGRAM LAYER PARTS SOURCE...): tests of a layer, in so many entries of ctest.
function(longbow_emulated_tests program layer parts)
  longbow_emulated_program(${program} ${layer} ${ARGN} $<TARGET_OBJECTS:longbow_torch_support>)
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    add_test(NAME ${layer}.emulated.${part} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${layer}.emulated.${part} PROPERTIES LABELS unit TIMEOUT 600
      ENVIRONMENT "OMP_NUM_THREADS=1;GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part}")
  endforeach()
endfunction()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/ops/*_cuda_test.cpp)
longbow_emulated_tests(longbow_emulated_test ops 4 ${sources})
longbow_emulated_tests(longbow_emulated_attention_test attention 1 tests/attention/mechanism_cuda_test.cpp)
# With the memory of an sm_86, where some kernels do not fit.
add_test(NAME attention.emulated.less_memory COMMAND longbow_emulated_attention_test --gtest_brief=1)
set_tests_properties(attention.emulated.less_memory PROPERTIES LABELS unit TIMEOUT 600
  ENVIRONMENT "OMP_NUM_THREADS=1;LONGBOW_EMULATED_KIB=99")

longbow_emulated_program(longbow_traffic attention bench/traffic.cpp)
add_test(NAME attention.traffic COMMAND longbow_traffic "{name: local, window: 32}" 128 causal)
set_tests_properties(attention.traffic PROPERTIES LABELS unit TIMEOUT 60 ENVIRONMENT OMP_NUM_THREADS=1
  PASS_REGULAR_EXPRESSION "MB in [0-9]+ operators\n.*longbow::block_softmax_backward")
add_test(NAME attention.traffic_mistake COMMAND longbow_traffic local 12x8)
set_tests_properties(attention.traffic_mistake PROPERTIES LABELS unit TIMEOUT 60
  PASS_REGULAR_EXPRESSION "^TOKENS:1: TOKENS is '12x8', not an integer")
