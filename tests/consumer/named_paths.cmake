# find_files_naming(RESULT PLACE PATH): the files below PLACE that name the absolute PATH or something in it.
# "/longbow" is not named by "include/longbow", which is another path, nor by "/longbow2".
function(find_files_naming result place path)
  string(REGEX REPLACE "([][+.*()^$?{}|\\])" "\\\\\\1" escaped ${path})
  set(part "A-Za-z0-9_.+")  # what a name in a path is made of
  set(ENV{LC_ALL} C)
  execute_process(
    COMMAND grep -rlaE "(^|[^${part}/})-])(-[A-Za-z]+)?${escaped}([^${part}-]|$)" ${place}
    OUTPUT_VARIABLE files RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status GREATER 1)
    message(FATAL_ERROR "grep ended with ${status}")
  endif()
  string(REPLACE "\n" ";" files "${files}")
  set(${result} "${files}" PARENT_SCOPE)
endfunction()
