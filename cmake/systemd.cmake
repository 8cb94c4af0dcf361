# Installs the units, accounts and directories of the system's kilnd, and the units for a user's
# kilnd (component kiln-systemd). In the units, ExecStart= names programs in the installation
# prefix.
set(KILN_SYSTEMD_DIR lib/systemd CACHE STRING
  "Where systemd has its directories 'system' and 'user'; relative to the prefix, or absolute")
set(KILN_SYSUSERS_DIR lib/sysusers.d CACHE STRING "Likewise: accounts")
set(KILN_CATALOG_DIR lib/systemd/catalog CACHE STRING "Likewise: what messages in the journal mean")
set(KILN_TMPFILES_DIR lib/tmpfiles.d CACHE STRING "Likewise: directories")

file(GLOB units RELATIVE ${PROJECT_SOURCE_DIR}/systemd
  CONFIGURE_DEPENDS systemd/*.service.in systemd/user/*.service.in)
install(CODE "
  set(KILN_UNITS \"${units}\")
  set(KILN_UNITS_FROM \"${PROJECT_SOURCE_DIR}/systemd\")
  set(KILN_SYSTEMD_DIR \"${KILN_SYSTEMD_DIR}\")
  set(CMAKE_INSTALL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
  set(CMAKE_INSTALL_LIBEXECDIR \"${CMAKE_INSTALL_LIBEXECDIR}\")" COMPONENT kiln-systemd)
install(SCRIPT cmake/install_units.cmake COMPONENT kiln-systemd)

foreach(manager system user)
  string(REPLACE "system" "" directory ${manager})
  file(GLOB plain CONFIGURE_DEPENDS systemd/${directory}/*.socket systemd/${directory}/*.slice
    systemd/${directory}/*.timer)
  install(FILES ${plain} DESTINATION ${KILN_SYSTEMD_DIR}/${manager} COMPONENT kiln-systemd)
endforeach()

# Files whose settings need a certain version of systemd are installed only from this version on,
# because an older systemd would print a warning for each line.
set(KILN_SYSTEMD_VERSION "" CACHE STRING
  "Version of the systemd that the units are installed for; empty: of the one here")
set(systemd_version ${KILN_SYSTEMD_VERSION})
if(NOT systemd_version)
  execute_process(COMMAND systemctl --version OUTPUT_VARIABLE said ERROR_QUIET
    RESULT_VARIABLE ignored)
  string(REGEX REPLACE "^systemd ([0-9]+).*" "\\1" systemd_version "${said}")
endif()
file(GLOB drop_ins RELATIVE ${PROJECT_SOURCE_DIR}/systemd CONFIGURE_DEPENDS
  systemd/*.d/since-*.conf)
foreach(drop_in ${drop_ins})
  cmake_path(GET drop_in PARENT_PATH directory)
  string(REGEX REPLACE ".*/since-([0-9]+)\\.conf" "\\1" since ${drop_in})
  if(systemd_version MATCHES "^[0-9]+$" AND systemd_version GREATER_EQUAL since)
    install(FILES systemd/${drop_in} DESTINATION ${KILN_SYSTEMD_DIR}/system/${directory}
      COMPONENT kiln-systemd)
  endif()
endforeach()

install(FILES systemd/90-kiln.preset DESTINATION ${KILN_SYSTEMD_DIR}/system-preset
  COMPONENT kiln-systemd)
install(FILES systemd/kiln.sysusers.conf DESTINATION ${KILN_SYSUSERS_DIR} RENAME kiln.conf
  COMPONENT kiln-systemd)
install(FILES systemd/kiln.tmpfiles.conf DESTINATION ${KILN_TMPFILES_DIR} RENAME kiln.conf
  COMPONENT kiln-systemd)
install(FILES systemd/kiln.catalog DESTINATION ${KILN_CATALOG_DIR} COMPONENT kiln-systemd)
