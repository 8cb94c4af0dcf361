# Units, accounts and folders of the system's kilnd, and units of a user's own; component
# kiln-systemd.  ExecStart= names programs of the prefix that the tree is installed to.
set(KILN_SYSTEMD_DIR lib/systemd CACHE STRING
  "Where systemd has its folders 'system' and 'user'; relative to the prefix, or absolute")
set(KILN_SYSUSERS_DIR lib/sysusers.d CACHE STRING "Likewise: accounts")
set(KILN_CATALOG_DIR lib/systemd/catalog CACHE STRING "Likewise: what messages in the journal mean")
set(KILN_TMPFILES_DIR lib/tmpfiles.d CACHE STRING "Likewise: folders")

file(GLOB units RELATIVE ${PROJECT_SOURCE_DIR}/systemd CONFIGURE_DEPENDS
  systemd/*.service.in systemd/user/*.service.in)
install(CODE "
  set(KILN_UNITS \"${units}\")
  set(KILN_UNITS_FROM \"${PROJECT_SOURCE_DIR}/systemd\")
  set(KILN_SYSTEMD_DIR \"${KILN_SYSTEMD_DIR}\")
  set(CMAKE_INSTALL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
  set(CMAKE_INSTALL_LIBEXECDIR \"${CMAKE_INSTALL_LIBEXECDIR}\")" COMPONENT kiln-systemd)
install(SCRIPT cmake/install_units.cmake COMPONENT kiln-systemd)

foreach(manager system user)
  string(REPLACE "system" "" folder ${manager})
  file(GLOB plain CONFIGURE_DEPENDS systemd/${folder}/*.socket systemd/${folder}/*.slice
    systemd/${folder}/*.timer)
  install(FILES ${plain} DESTINATION ${KILN_SYSTEMD_DIR}/${manager} COMPONENT kiln-systemd)
endforeach()
install(FILES systemd/90-kiln.preset DESTINATION ${KILN_SYSTEMD_DIR}/system-preset
  COMPONENT kiln-systemd)
install(FILES systemd/kiln.sysusers.conf DESTINATION ${KILN_SYSUSERS_DIR} RENAME kiln.conf
  COMPONENT kiln-systemd)
install(FILES systemd/kiln.tmpfiles.conf DESTINATION ${KILN_TMPFILES_DIR} RENAME kiln.conf
  COMPONENT kiln-systemd)
install(FILES systemd/kiln.catalog DESTINATION ${KILN_CATALOG_DIR} COMPONENT kiln-systemd)
