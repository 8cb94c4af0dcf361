# Targets that have MIOpen's names: check, doc, MIOpenDriver.

# Sets |ret| to the targets below |directory| that 'all' builds.
function(kiln_targets_of_all ret directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(children DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  set(found "")
  foreach(target ${targets})
    get_target_property(is_excluded ${target} EXCLUDE_FROM_ALL)
    if(NOT is_excluded)
      list(APPEND found ${target})
    endif()
  endforeach()
  foreach(child ${children})
    kiln_targets_of_all(more ${child})
    list(APPEND found ${more})
  endforeach()
  set(${ret} ${found} PARENT_SCOPE)
endfunction()

# check: builds everything, then runs the quick tests.
if(KILN_TESTS)
  kiln_targets_of_all(all ${PROJECT_SOURCE_DIR})
  add_custom_target(check COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure -L quick
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR} USES_TERMINAL
    COMMENT "The quick tests; scripts/test --all runs every test")
  add_dependencies(check ${all})
endif()

# doc: makes doc/html/index.html from the API and docs/.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/doc)
  set(DOXYGEN_PROJECT_NAME kiln)
  set(DOXYGEN_PROJECT_BRIEF ${PROJECT_DESCRIPTION})
  set(DOXYGEN_USE_MDFILE_AS_MAINPAGE ${PROJECT_SOURCE_DIR}/README.md)
  set(DOXYGEN_FILTER_PATTERNS "*.h=sed -E -f ${PROJECT_SOURCE_DIR}/cmake/doxygen.sed"
    "*.md=python3 -B ${PROJECT_SOURCE_DIR}/cmake/doxygen_markdown.py")
  set(DOXYGEN_FILE_PATTERNS *.h *.md)
  set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/libclient/include)
  set(DOXYGEN_OPTIMIZE_OUTPUT_FOR_C YES)
  set(DOXYGEN_EXTRACT_ALL YES)
  set(DOXYGEN_MAX_INITIALIZER_LINES 0)
  set(DOXYGEN_HAVE_DOT NO)
  set(DOXYGEN_GENERATE_LATEX NO)
  set(DOXYGEN_QUIET YES)
  set(DOXYGEN_WARN_IF_UNDOCUMENTED NO)
  set(DOXYGEN_PREDEFINED __cplusplus=0)
  doxygen_add_docs(doc ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
    ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/libclient/include/kiln
    COMMENT "HTML in ${PROJECT_BINARY_DIR}/doc/html")
else()
  add_custom_target(doc
    COMMAND ${CMAKE_COMMAND} -E echo "doc needs doxygen: scripts/install-deps doc, then cmake again"
    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()

# MIOpenDriver: makes a link to kiln-driver, which accepts MIOpenDriver's command lines.
add_custom_target(MIOpenDriver
  COMMAND ${CMAKE_COMMAND} -E create_symlink kiln-driver
    ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/MIOpenDriver
  DEPENDS kiln-driver VERBATIM)
