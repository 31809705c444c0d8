# LibTorch as an interface target, for this build and, installed beside longbowConfig.cmake, for its users.
# torch's own find_package(Torch) fails on a machine without a CUDA toolkit, so the libraries are named here.
set(longbow_torch_version 2.11.0)

# longbow_find_torch(RESULT candidate...): the first folder that holds LibTorch, or else an importable torch.
function(longbow_find_torch result)
  foreach(candidate IN LISTS ARGN)
    if(candidate AND EXISTS "${candidate}/lib/libtorch_cpu.so")
      file(REAL_PATH "${candidate}" candidate)
      set(${result} "${candidate}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  execute_process(
    COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

function(longbow_check_torch folder hint)
  if(NOT EXISTS "${folder}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "LibTorch ${longbow_torch_version} not found; ${hint}")
  endif()
  set(version "another version")
  if(EXISTS "${folder}/include/torch/headeronly/version.h")
    file(READ "${folder}/include/torch/headeronly/version.h" header)
    string(REGEX MATCH "\"([0-9]+\\.[0-9]+\\.[0-9]+)" quoted "${header}")
    set(version "${CMAKE_MATCH_1}")
  endif()
  if(NOT version VERSION_EQUAL longbow_torch_version)
    message(FATAL_ERROR "LibTorch at ${folder} is ${version}, longbow is pinned to ${longbow_torch_version}; ${hint}")
  endif()
endfunction()

function(longbow_describe_torch target folder cuda)
  target_include_directories(${target} SYSTEM INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  set(libraries ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  if(cuda)
    if(NOT EXISTS ${folder}/lib/libtorch_cuda.so)
      message(FATAL_ERROR "LibTorch at ${folder} has no CUDA half; run scripts/setup --cuda or set LONGBOW_TORCH to one that has")
    endif()
    list(APPEND libraries ${folder}/lib/libtorch_cuda.so ${folder}/lib/libc10_cuda.so)
    target_link_libraries(${target} INTERFACE CUDA::cudart)
    target_compile_definitions(${target} INTERFACE LONGBOW_CUDA)
  endif()
  # Without NDEBUG some of LibTorch's classes have members that its release libraries do not know of.
  target_compile_definitions(${target} INTERFACE NDEBUG)
  # Registration-only libraries look unused to the linker.
  target_link_libraries(${target} INTERFACE -Wl,--no-as-needed,--allow-shlib-undefined ${libraries} -Wl,--as-needed)
endfunction()
