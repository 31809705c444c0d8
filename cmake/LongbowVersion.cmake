# The commit that --version prints: read when CMake runs, which it does again after every commit.
set(longbow_commit unknown)
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty=+changes --abbrev=9 --exclude *
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(described)
    set(longbow_commit ${described})
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()
set_source_files_properties(longbow/core/version.cpp PROPERTIES
  COMPILE_DEFINITIONS "LONGBOW_VERSION=\"${PROJECT_VERSION}\";LONGBOW_COMMIT=\"${longbow_commit}\"")
