# Language, optimisation, warnings, sanitizers, output directories.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel"
    FORCE)
endif()
set(CMAKE_C_STANDARD 17) # gnu17: cleanup attribute, statement expressions
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# Installed programs find libkiln relative to their own directory, so the installed tree can be
# moved.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# every #include has a path from the root of the source tree
include_directories(${PROJECT_SOURCE_DIR})
add_compile_definitions(_GNU_SOURCE KILN_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wvla -Wformat=2 -Wpointer-arith -Wwrite-strings -Wundef -fno-common)
if(KILN_WERROR)
  add_compile_options(-Werror)
endif()
if(KILN_SANITIZE)
  add_compile_options(-O1 -g1 -fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KILN_SANITIZE})
  if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND KILN_SANITIZE MATCHES "address")
    add_compile_definitions(__SANITIZE_ADDRESS__=1) # gcc defines this by itself
  endif()
else()
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2> -fstack-protector-strong)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
# Counters are atomic, because kiln has threads. There is no optimisation, so that the branches are
# those of the source.
if(KILN_COVERAGE)
  add_compile_options(--coverage -O0 -fprofile-update=atomic
    "-fprofile-filter-files=${PROJECT_SOURCE_DIR}/(common|daemon)/.*")
  add_link_options(--coverage)
endif()
