# Language, flags and linker, gathered in one interface target so that nothing is set globally.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(longbow_flags INTERFACE)
target_compile_options(longbow_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LONGBOW_WERROR}>>:-Werror>)
target_include_directories(longbow_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)

# Kernels are compiled for several instruction sets and chosen when the program starts; the sanitizers
# cannot run that early, so there the plain version alone is built. Only what is declared nowhere else may be
# marked: clang 14 forgets the mark of a function that a header has declared. Named by their instructions: a name like
# arch=haswell is compared with the model of the processor, so that processors of other makers would run the default.
if(LONGBOW_SANITIZE)
  string(REPLACE ";" "," sanitizers "${LONGBOW_SANITIZE}")
  target_compile_options(longbow_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${sanitizers};-fno-sanitize-recover=all;-fno-omit-frame-pointer>)
  target_link_options(longbow_flags INTERFACE -fsanitize=${sanitizers})
  if(LONGBOW_FUZZ)
    target_compile_options(longbow_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
  endif()
  set(longbow_clones "")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(longbow_clones "__attribute__((target_clones(\"default\",\"avx2\",\"avx512f\")))")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(longbow_flags INTERFACE -fuse-ld=lld)
endif()
if(LONGBOW_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # LibTorch's is linked by name; a second one would have a state of its own
  enable_language(CUDA)
  # What nvcc's host compiler links by itself, and where it looks, must not reach the link line of C++.
  set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")
  set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
  # CMake 3.25 does not know that nvcc 13 speaks C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
endif()
