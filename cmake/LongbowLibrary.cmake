# One shared library of all layers but cli (static archives drop objects that only register), and the program.
get_property(layers GLOBAL PROPERTY longbow_layers)
set(objects "")
foreach(layer IN LISTS layers)
  if(NOT layer STREQUAL "cli")
    list(APPEND objects $<TARGET_OBJECTS:longbow_${layer}>)
  endif()
endforeach()
add_library(longbow SHARED ${objects})
add_library(longbow::longbow ALIAS longbow)
set_target_properties(longbow PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)
target_link_libraries(longbow PRIVATE longbow_flags longbow_fmt longbow_parsers Threads::Threads
  PUBLIC $<BUILD_INTERFACE:longbow_torch> $<INSTALL_INTERFACE:longbow::torch>)
# Hidden visibility without a macro on every declaration: the linker exports namespace longbow and nothing else.
target_link_options(longbow PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_property(TARGET longbow APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_compile_features(longbow INTERFACE cxx_std_20)
get_property(headers GLOBAL PROPERTY longbow_headers)
list(FILTER headers EXCLUDE REGEX "/longbow/cli/")
target_sources(longbow PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})

# The program links the layers' objects directly, so that it runs without the library.
if(EXISTS ${PROJECT_SOURCE_DIR}/longbow/cli/main.cpp)
  add_executable(longbow_program longbow/cli/main.cpp ${objects} $<TARGET_OBJECTS:longbow_cli>)
  target_link_libraries(longbow_program PRIVATE longbow_flags longbow_torch longbow_fmt longbow_parsers CLI11::CLI11 Threads::Threads)
  set_source_files_properties(longbow/cli/main.cpp PROPERTIES COMPILE_OPTIONS -O0)  # options and help, and nothing else
  set_target_properties(longbow_program PROPERTIES OUTPUT_NAME longbow RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endif()

# What is timed beyond what the program offers; built when asked for.
foreach(name step linformer)
  add_executable(longbow_${name}_bench EXCLUDE_FROM_ALL bench/${name}.cpp)
  target_link_libraries(longbow_${name}_bench PRIVATE longbow longbow_flags longbow_fmt)
  target_compile_definitions(longbow_${name}_bench PRIVATE FMT_HEADER_ONLY)  # longbow does not export its own
endforeach()
