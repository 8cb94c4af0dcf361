# Finds the commit that kiln is built from, for kiln_build_info in kilnd's metrics. In a git
# checkout, git names the commit while CMake configures, with "-dirty" if files have changed. In a
# source archive, git or scripts/package has written it into commit.txt. Otherwise it is "unknown".
set(KILN_COMMIT "" CACHE STRING
  "Commit that kilnd's metrics name; empty: what git or the archive says")

function(kiln_find_commit source ret_commit)
  set(found "")
  if(EXISTS ${source}/.git) # not the repository of a parent directory
    find_package(Git QUIET)
    if(GIT_FOUND)
      execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
        WORKING_DIRECTORY ${source} OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_QUIET)
    endif()
  elseif(EXISTS ${source}/cmake/commit.txt)
    file(STRINGS ${source}/cmake/commit.txt found LIMIT_COUNT 1)
  endif()
  if(found MATCHES "^([0-9a-f]+)(-dirty)?$")
    string(SUBSTRING ${CMAKE_MATCH_1} 0 12 found) # git's archive has the full-length hash
    string(APPEND found "${CMAKE_MATCH_2}")
  else()
    set(found unknown)
  endif()
  set(${ret_commit} ${found} PARENT_SCOPE)
endfunction()

if(KILN_COMMIT AND NOT KILN_COMMIT MATCHES "^[0-9A-Za-z._+~-]+$")
  message(FATAL_ERROR "KILN_COMMIT is '${KILN_COMMIT}': letters, digits and . _ + ~ - only")
endif()
if(KILN_COMMIT)
  set(kiln_commit ${KILN_COMMIT})
else()
  kiln_find_commit(${CMAKE_CURRENT_LIST_DIR}/.. kiln_commit)
endif()
