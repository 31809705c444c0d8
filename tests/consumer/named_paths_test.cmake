# cmake -DFOLDER=... -P named_paths_test.cmake
# What names the source tree, and what only looks like it, for a tree that lies at /longbow.
include(${CMAKE_CURRENT_LIST_DIR}/named_paths.cmake)

function(expect wanted text)
  file(REMOVE_RECURSE ${FOLDER})
  file(WRITE ${FOLDER}/file "${text}")
  find_files_naming(files ${FOLDER} ${path})
  if(files STREQUAL "${FOLDER}/file")
    set(found named)
  elseif(files STREQUAL "")
    set(found free)
  else()
    set(found "${files}")
  endif()
  if(NOT found STREQUAL wanted)
    message(SEND_ERROR "'${text}' is ${found} for ${path}, not ${wanted}")
  endif()
endfunction()

set(path /longbow)
foreach(text "/longbow" "/longbow/nn/contract/mixer.h" "set(dir \"/longbow\")" "-I/longbow" "-isystem/longbow/include"
    "RPATH=/usr/lib:/longbow/build/dev" "-Wl,-rpath,/longbow/lib" "a line\n/longbow/VERSION\nanother")
  expect(named "${text}")
endforeach()
foreach(text "include/longbow" "include/longbow/nn/contract/mixer.h" "\${_IMPORT_PREFIX}/longbow" "$(prefix)/longbow"
    "../longbow" "/longbow2" "/longbow-1.0/lib" "/longbow.txt" "/usr/longbow/lib" "https://example.org/longbow" "longbow")
  expect(free "${text}")
endforeach()

set(path "/srv/long+bow (1)")
expect(named "-L/srv/long+bow (1)/lib")
expect(free "-L/srv/longgbow (1)/lib")

# Between the bytes of a program.
set(path /longbow)
execute_process(COMMAND printf "\\177ELF\\000/longbow/build\\000\\001" OUTPUT_FILE ${FOLDER}/file)
find_files_naming(files ${FOLDER} ${path})
if(NOT files STREQUAL "${FOLDER}/file")
  message(SEND_ERROR "a path between other bytes is not found")
endif()
file(REMOVE_RECURSE ${FOLDER})
