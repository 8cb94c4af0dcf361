# Runs during an installation: writes the systemd units for the installation's prefix.
cmake_path(ABSOLUTE_PATH KILN_SYSTEMD_DIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_BINDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
  OUTPUT_VARIABLE CMAKE_INSTALL_FULL_BINDIR)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBEXECDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
  OUTPUT_VARIABLE CMAKE_INSTALL_FULL_LIBEXECDIR)
foreach(unit ${KILN_UNITS})
  string(REGEX REPLACE "\\.in$" "" name ${unit})
  if(NOT name MATCHES "^user/")
    string(PREPEND name system/)
  endif()
  set(to ${KILN_SYSTEMD_DIR}/${name})
  message(STATUS "Installing: $ENV{DESTDIR}${to}")
  configure_file(${KILN_UNITS_FROM}/${unit} $ENV{DESTDIR}${to} @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${to})
endforeach()
