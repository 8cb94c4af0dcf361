# Every library that is not ours; docs/architecture.md says why each is there.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.40)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.5)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson>=1.7)
pkg_check_modules(NETTLE REQUIRED IMPORTED_TARGET nettle>=3.8)
pkg_check_modules(HOGWEED REQUIRED IMPORTED_TARGET hogweed>=3.8) # nettle's signatures
find_package(BZip2 REQUIRED)
pkg_check_modules(NCURSES REQUIRED IMPORTED_TARGET ncurses>=6.0)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp>=2.5)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(OPENCL_HEADERS REQUIRED IMPORTED_TARGET OpenCL-Headers) # types and constants
if(KILN_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1)
  pkg_check_modules(OPENCL REQUIRED IMPORTED_TARGET OpenCL) # its loader; kiln itself opens that by dlopen
endif()
