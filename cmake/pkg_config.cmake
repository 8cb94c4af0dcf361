# Sets the directories for .pc files, relative to the directory of the .pc file, so that the
# installed tree can be moved.
file(RELATIVE_PATH KILN_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
cmake_path(APPEND KILN_PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND KILN_PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
