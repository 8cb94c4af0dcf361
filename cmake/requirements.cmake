# The build requirements, which cmake/dependencies.cmake and install_deps.cmake use. A row is:
#   name | pkg-config module with its minimum version, or header:, program: or file: and a name
#   | Debian's package | Fedora's package | "always", or "tests" (not needed with --minimum)
set(KILN_REQUIREMENTS
  "UV|libuv>=1.44|libuv1-dev|libuv-devel|always"
  "SQLITE|sqlite3>=3.40|libsqlite3-dev|sqlite-devel|always"
  "ZSTD|libzstd>=1.5|libzstd-dev|libzstd-devel|always"
  "CJSON|libcjson>=1.7|libcjson-dev|cjson-devel|always"
  "NETTLE|nettle>=3.8|nettle-dev|nettle-devel|always"
  "HOGWEED|hogweed>=3.8|nettle-dev|nettle-devel|always"
  "BZIP2|header:bzlib.h|libbz2-dev|bzip2-devel|always"
  "NCURSES|ncurses>=6.0|libncurses-dev|ncurses-devel|always"
  "SECCOMP|libseccomp>=2.5|libseccomp-dev|libseccomp-devel|always"
  "CURL|libcurl>=7.85|libcurl4-openssl-dev|libcurl-devel|always"
  "OPENCL_HEADERS|OpenCL-Headers|opencl-c-headers|opencl-headers|always"
  "PKG_CONFIG|program:pkg-config|pkg-config|pkgconf-pkg-config|always"
  "PYTHON|program:python3|python3|python3|always"
  "NINJA|program:ninja|ninja-build|ninja-build|always"
  "CMOCKA|cmocka>=1.1|libcmocka-dev|libcmocka-devel|tests"
  "OPENCL|OpenCL|ocl-icd-opencl-dev|ocl-icd-devel|tests"
  "POCL|file:/etc/OpenCL/vendors/pocl.icd|pocl-opencl-icd|pocl|tests"
  "CLANG|program:clang-19|clang-19|clang|tests"
  "LLD|program:ld.lld-19|lld-19|lld|tests"
)

# kiln_requirement(ROW): sets the variables name, module, debian, fedora and needed.
macro(kiln_requirement row)
  string(REPLACE "|" ";" row_parts "${row}")
  list(GET row_parts 0 name)
  list(GET row_parts 1 module)
  list(GET row_parts 2 debian)
  list(GET row_parts 3 fedora)
  list(GET row_parts 4 needed)
endmacro()
