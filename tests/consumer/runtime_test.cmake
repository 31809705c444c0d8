# cmake -DCOMPILER=... -DMODULE=... -DFOLDER=... -P runtime_test.cmake
# Configuring takes a compiler as it is, and refuses it when a wrapper makes it link its C++ runtime statically.
file(REMOVE_RECURSE ${FOLDER})
file(WRITE ${FOLDER}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(runtime LANGUAGES CXX)\ninclude(${MODULE})\n")
file(WRITE ${FOLDER}/wrapped "#!/bin/sh\nexec ${COMPILER} \"$@\" -static-libstdc++ -Wno-unused-command-line-argument\n")
file(CHMOD ${FOLDER}/wrapped PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)

function(configure build compiler)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${FOLDER} -B ${FOLDER}/${build} -G Ninja -DCMAKE_CXX_COMPILER=${compiler} ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  set(status ${status} PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_refusal)
  string(FIND "${output}" "does not link libstdc++.so, which LibTorch needs" refused)
  string(FIND "${output}" "Set CXX=/usr/bin/g++ or CXX=clang++" told)
  if(status EQUAL 0 OR refused LESS 0 OR told LESS 0)
    message(SEND_ERROR "configuring ended with ${status}:\n${output}")
  endif()
endfunction()

configure(plain ${COMPILER})
if(NOT status EQUAL 0)
  message(SEND_ERROR "configuring ended with ${status}:\n${output}")
endif()
configure(plain ${COMPILER} -DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++)
expect_refusal()
configure(static ${FOLDER}/wrapped)
expect_refusal()
file(REMOVE_RECURSE ${FOLDER})
