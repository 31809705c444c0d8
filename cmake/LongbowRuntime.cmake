# LibTorch brings libstdc++.so. A compiler that links another C++ runtime into every program, as some images wrap
# g++ to do, gives each process two of them, and what one allocates the other frees: programs end in
# "free(): invalid pointer". So a small program is linked, and must need libstdc++.so too.
if(NOT "${longbow_runtime_of}" STREQUAL "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS}")
  set(longbow_runtime_program ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/longbow_runtime)
  try_compile(linked SOURCE_FROM_CONTENT runtime.cpp
    "#include <iostream>\n#include <locale>\nint main() { std::cout.imbue(std::locale()); }\n"
    COPY_FILE ${longbow_runtime_program} NO_CACHE OUTPUT_VARIABLE output)
  if(NOT linked)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} cannot link a program:\n${output}")
  endif()
  file(STRINGS ${longbow_runtime_program} runtime REGEX "libstdc[+][+][.]so" LIMIT_COUNT 1)
  if(NOT runtime)
    message(FATAL_ERROR
      "${CMAKE_CXX_COMPILER} does not link libstdc++.so, which LibTorch needs, but another C++ runtime, or the same one "
      "statically (-static-libstdc++). Two runtimes in one process crash. Set CXX=/usr/bin/g++ or CXX=clang++, without "
      "such flags, and configure an empty build folder.")
  endif()
  set(longbow_runtime_of "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS}" CACHE INTERNAL "")
endif()
