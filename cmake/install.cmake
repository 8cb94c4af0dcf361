# Installs files that belong to no single directory.  The components of an installation are kilnd
# (with kiln-compiler, kiln-transfer, kiln-launch), kiln-tools, kiln-systemd, libkiln0, libkiln-dev
# and kiln-doc.
include(cmake/systemd.cmake)

# Programs find libkiln relative to their own directory, so the prefix may be any directory.
file(RELATIVE_PATH KILN_LIBRARIES_FROM_PROGRAMS ${CMAKE_INSTALL_FULL_BINDIR}
  ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(kilnctl kiln-driver PROPERTIES
  INSTALL_RPATH "$ORIGIN/${KILN_LIBRARIES_FROM_PROGRAMS}")

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT kiln-doc)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT kiln-doc
  FILES_MATCHING PATTERN "*.md" PATTERN "*.json" PATTERN "*.yml" PATTERN Dockerfile
  PATTERN man EXCLUDE)

# Not installed in the directory of programs, where MIOpen may have a file with this name.
install(PROGRAMS scripts/install_precompiled_kernels.sh
  DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln COMPONENT kiln-tools)
install(PROGRAMS scripts/slurm/prolog.sh scripts/slurm/task-prolog.sh scripts/slurm/epilog.sh
  DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln/slurm COMPONENT kiln-tools)

# Alert rules for Prometheus and a dashboard for Grafana.
install(FILES docs/operations/kiln-alerts.yml docs/operations/kiln-dashboard.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln COMPONENT kiln-tools)
install(DIRECTORY docs/operations/kubernetes DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln
  COMPONENT kiln-tools)

# Problems of well-known networks, for 'kilnctl prefetch'.
install(DIRECTORY scripts/networks/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/networks
  COMPONENT kiln-tools
  FILES_MATCHING PATTERN "*.txt" PATTERN dictionary.txt EXCLUDE PATTERN smoke.txt EXCLUDE)
