# Every function that is marked LONGBOW_CLONES was compiled for other instruction sets too; a compiler may forget the
# mark without a word.
#   cmake -DNM=nm -DPROGRAM=longbow_kernels_test -DSOURCES=longbow/kernels/cpu -P clones.cmake
execute_process(COMMAND ${NM} ${PROGRAM} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
file(GLOB sources ${SOURCES}/*.cpp)
set(count 0)
foreach(source IN LISTS sources)
  file(STRINGS ${source} marked REGEX "^LONGBOW_CLONES ")
  foreach(line IN LISTS marked)
    string(REGEX REPLACE "^LONGBOW_CLONES void ([a-z_]+).*" "\\1" name "${line}")
    if(NOT symbols MATCHES "[0-9]${name}E[^\n]*avx2")
      message(FATAL_ERROR "${source}: ${name} was compiled for one instruction set only")
    endif()
    math(EXPR count "${count} + 1")
  endforeach()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "${SOURCES}: no function is marked LONGBOW_CLONES")
endif()
