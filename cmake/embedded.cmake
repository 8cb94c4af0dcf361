# Checks the data of an embedded build (docs/embedding.md) while CMake configures.  Sets
# KILN_BUILT_IN_DATABASES and KILN_BUILT_IN_PACKAGE (files), KILN_BUILT_IN_DEVICES (the devices of
# these databases) and KILN_BUILT_IN_TARGETS.
option(KILN_EMBED_BUILD "Make libkiln.a and a kiln-driver that need no daemon and no file" OFF)
set(KILN_EMBED_DB "" CACHE STRING
  "Devices whose FindDb and PerfDb are built in: gfx906_60;gfx900_56")
set(KILN_DB_PATH "" CACHE PATH "Directory of these files, as MIOpen has them")
set(KILN_BINCACHE_PATH "" CACHE STRING
  "Package whose kernels are built in: a path or a URL of gfx906_60.kdb")
set(KILN_BINCACHE_SHA256 "" CACHE STRING
  "SHA-256 of that file, before it is unpacked; any other file is rejected")
set(KILN_DEVICE_TARGETS "" CACHE STRING
  "Targets that kiln's own kernels are compiled for and built in: gfx90a;gfx1030;sm_90;opencl")
set(KILN_EMBED_PROBLEMS "" CACHE FILEPATH
  "MIOpenDriver command lines: the problems of these kernels")
option(KILN_DISABLE_USERDB "Keep and use no records of what a user measured" OFF)
option(KILN_DISABLE_SYSDB "Use no system FindDb and PerfDb" OFF)

set(KILN_BUILT_IN_DATABASES "")
set(KILN_BUILT_IN_DEVICES "")
set(KILN_BUILT_IN_PACKAGE "")
set(KILN_BUILT_IN_TARGETS "")

function(kiln_embed_needs_build)
  if(KILN_EMBED_BUILD AND (KILN_SANITIZE OR KILN_COVERAGE))
    message(FATAL_ERROR
      "KILN_EMBED_BUILD: there is no libkiln.a with sanitizers or counters: leave "
      "KILN_SANITIZE and KILN_COVERAGE empty")
  endif()
  foreach(name KILN_EMBED_DB KILN_BINCACHE_PATH KILN_BINCACHE_SHA256 KILN_DEVICE_TARGETS
    KILN_EMBED_PROBLEMS)
    if(${name} AND NOT KILN_EMBED_BUILD)
      message(FATAL_ERROR "${name} is set, but nothing is built in without -DKILN_EMBED_BUILD=ON")
    endif()
  endforeach()
endfunction()

# Finds the first of these names that exists below KILN_DB_PATH, compressed or not. Stops with an
# error if none exists.
function(kiln_embed_find_database ret device kind)
  set(found "")
  foreach(name ${ARGN})
    foreach(ending "" .bz2)
      if(EXISTS ${KILN_DB_PATH}/${name}${ending}
          AND NOT IS_DIRECTORY ${KILN_DB_PATH}/${name}${ending})
        list(APPEND found ${name}${ending})
      endif()
    endforeach()
  endforeach()
  if(found)
    list(POP_FRONT found first)
    set(${ret} ${KILN_DB_PATH}/${first} PARENT_SCOPE)
    if(found)
      list(JOIN found ", " found)
      message(STATUS
        "KILN_EMBED_DB: of '${device}' the ${kind} '${first}' is built in, and not ${found}")
    endif()
    return()
  endif()
  file(GLOB there RELATIVE ${KILN_DB_PATH} ${KILN_DB_PATH}/*.fdb.txt ${KILN_DB_PATH}/*.fdb.txt.bz2
    ${KILN_DB_PATH}/*.db ${KILN_DB_PATH}/*.db.bz2 ${KILN_DB_PATH}/*.db.txt
    ${KILN_DB_PATH}/*.db.txt.bz2)
  list(TRANSFORM there REPLACE "[.].*" "")
  list(REMOVE_DUPLICATES there)
  list(JOIN there ", " there)
  list(JOIN ARGN " nor " names)
  message(FATAL_ERROR
    "KILN_EMBED_DB: there is no ${kind} of '${device}': neither ${names} (or .bz2) exists in "
    "'${KILN_DB_PATH}', which has files of: ${there}")
endfunction()

function(kiln_embed_databases)
  if(KILN_EMBED_DB AND NOT IS_DIRECTORY "${KILN_DB_PATH}")
    message(FATAL_ERROR
      "KILN_EMBED_DB names devices, but KILN_DB_PATH is not a directory: '${KILN_DB_PATH}'")
  endif()
  set(files "")
  set(devices ${KILN_EMBED_DB})
  list(REMOVE_DUPLICATES devices)
  foreach(device ${devices})
    if(NOT device MATCHES "^[a-z]+[0-9a-z_]+$")
      message(FATAL_ERROR
        "KILN_EMBED_DB: '${device}' is not a device such as gfx906_60 or gfx90a68")
    endif()
    kiln_embed_find_database(find ${device} FindDb ${device}.HIP.fdb.txt ${device}.CUDA.fdb.txt
      ${device}.OpenCL.fdb.txt)
    kiln_embed_find_database(perf ${device} PerfDb ${device}.db ${device}.db.txt)
    list(APPEND files ${find} ${perf})
  endforeach()
  set(KILN_BUILT_IN_DATABASES ${files} PARENT_SCOPE)
  set(KILN_BUILT_IN_DEVICES ${devices} PARENT_SCOPE)
endfunction()

function(kiln_embed_fetch url to)
  file(DOWNLOAD ${url} ${to}.part STATUS status TIMEOUT 600 INACTIVITY_TIMEOUT 60 TLS_VERIFY ON)
  list(GET status 0 code)
  list(GET status 1 why)
  if(code)
    file(REMOVE ${to}.part)
    message(FATAL_ERROR "KILN_BINCACHE_PATH: cannot download '${url}': ${why}")
  endif()
  file(RENAME ${to}.part ${to})
endfunction()

# Stops with an error if |file| does not have the digest KILN_BINCACHE_SHA256.
function(kiln_embed_check_package file)
  string(TOLOWER "${KILN_BINCACHE_SHA256}" wanted)
  file(SHA256 ${file} found)
  if(wanted AND NOT wanted STREQUAL found)
    if(NOT file STREQUAL KILN_BINCACHE_PATH) # it was fetched
      file(REMOVE ${file})
    endif()
    message(FATAL_ERROR "KILN_BINCACHE_SHA256: '${file}' has the SHA-256 ${found}, not ${wanted}")
  endif()
endfunction()

function(kiln_embed_package)
  string(LENGTH "${KILN_BINCACHE_SHA256}" digits)
  if(digits AND NOT (digits EQUAL 64 AND KILN_BINCACHE_SHA256 MATCHES "^[0-9a-fA-F]+$"))
    message(FATAL_ERROR
      "KILN_BINCACHE_SHA256: '${KILN_BINCACHE_SHA256}' is not a SHA-256: it must have 64 "
      "hexadecimal digits")
  endif()
  if(NOT KILN_BINCACHE_PATH)
    if(digits)
      message(FATAL_ERROR
        "KILN_BINCACHE_SHA256 needs -DKILN_BINCACHE_PATH=...: the package that it is of")
    endif()
    return()
  endif()
  cmake_path(GET KILN_BINCACHE_PATH FILENAME name)
  string(REGEX REPLACE "[.]bz2$" "" plain "${name}")
  if(NOT plain MATCHES "^[a-z]+[0-9a-z_]+[0-9a-zA-Z._-]*[.](kdb|ukdb|kpkg)$")
    message(FATAL_ERROR "KILN_BINCACHE_PATH: '${name}' is not named like a package: gfx906_60.kdb, "
      "gfx90a68.kpkg, each with .bz2 or not")
  endif()
  set(file ${KILN_BINCACHE_PATH})
  if(KILN_BINCACHE_PATH MATCHES "^(https?|file)://")
    string(SHA256 place "${KILN_BINCACHE_PATH}") # each URL has its own file
    string(SUBSTRING ${place} 0 12 place)
    set(file ${PROJECT_BINARY_DIR}/embedded/fetched/${place}/${name})
    if(NOT EXISTS ${file})
      kiln_embed_fetch(${KILN_BINCACHE_PATH} ${file})
    endif()
  elseif(NOT IS_ABSOLUTE "${file}")
    message(FATAL_ERROR "KILN_BINCACHE_PATH: '${file}' is neither a URL nor a path from the root")
  elseif(NOT EXISTS "${file}" OR IS_DIRECTORY "${file}")
    message(FATAL_ERROR "KILN_BINCACHE_PATH: there is no file '${file}'")
  endif()
  kiln_embed_check_package(${file})
  set(KILN_BUILT_IN_PACKAGE ${file} PARENT_SCOPE)
endfunction()

# Compute capabilities that the compilers of CUDA 11 to 13 support.
set(KILN_NVIDIA_MACHINES 50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 90a 100 100a 101 101a 103 103a
  110 110a 120 120a 121 121a)

# Sets |ret| to the canonical target of an AMD GPU's code object, with its features in HIP's order.
# Stops with an error if |target| is not an AMD GPU's.
function(kiln_embed_target ret target)
  file(STRINGS ${PROJECT_SOURCE_DIR}/common/target/amdgpu_machines.def machines
    REGEX "^AMDGPU_MACHINE")
  list(TRANSFORM machines REPLACE "^AMDGPU_MACHINE.\"([^\"]*)\".*" "\\1")
  string(REGEX REPLACE ":.*" "" arch "${target}")
  set(feature "(:(sramecc|xnack)[+-])")
  if(arch IN_LIST machines AND target MATCHES "^[^:]+${feature}?${feature}?$")
    string(REGEX MATCH ":sramecc[+-]" sramecc "${target}")
    string(REGEX MATCH ":xnack[+-]" xnack "${target}")
    string(LENGTH "${arch}${sramecc}${xnack}" known)
    string(LENGTH "${target}" given)
    if(known EQUAL given)
      set(${ret} ${arch}${sramecc}${xnack} PARENT_SCOPE)
      return()
    endif()
  elseif(target MATCHES "^sm_(.+)$" AND CMAKE_MATCH_1 IN_LIST KILN_NVIDIA_MACHINES)
    set(${ret} ${target} PARENT_SCOPE)
    return()
  elseif(target STREQUAL "opencl")
    set(${ret} ${target} PARENT_SCOPE)
    return()
  endif()
  list(JOIN machines " " known)
  list(JOIN KILN_NVIDIA_MACHINES " sm_" nvidia)
  message(FATAL_ERROR
    "KILN_DEVICE_TARGETS: '${target}' is not a target that kiln knows: ${known} (each with "
    ":sramecc+ or -, :xnack+ or -, or neither), sm_${nvidia}, or opencl for this host's OpenCL "
    "device")
endfunction()

# Sets |ret| to the part of a target by which devices select a package: the processor and, for AMD,
# xnack.
function(kiln_embed_target_id ret target)
  string(REGEX REPLACE ":.*" "" id ${target})
  if(target MATCHES ":xnack[+]")
    string(APPEND id _xnack)
  endif()
  set(${ret} ${id} PARENT_SCOPE)
endfunction()

# Stops with an error if two packages are for the same devices, because they would conflict.
function(kiln_embed_check_ids)
  foreach(target ${ARGN})
    kiln_embed_target_id(id ${target})
    if(DEFINED of_${id})
      message(FATAL_ERROR
        "KILN_DEVICE_TARGETS: devices ask for the kernels of '${of_${id}}' and of '${target}' by "
        "one name, ${id}, so only one of them can be built in; one without :sramecc runs where it "
        "is on and where it is off, one without :xnack wherever xnack is not on")
    endif()
    set(of_${id} ${target})
  endforeach()
endfunction()

function(kiln_embed_targets)
  set(targets "")
  foreach(word ${KILN_DEVICE_TARGETS})
    kiln_embed_target(target "${word}")
    list(APPEND targets ${target})
    # devices of sm_90 have the target sm_90a if their driver can encode tensor maps
    if(target STREQUAL "sm_90")
      list(APPEND targets sm_90a)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES targets)
  kiln_embed_check_ids(${targets})
  if(KILN_DEVICE_TARGETS AND NOT KILN_EMBED_PROBLEMS)
    message(FATAL_ERROR
      "KILN_DEVICE_TARGETS needs -DKILN_EMBED_PROBLEMS=FILE: the problems to compile for")
  endif()
  if(KILN_EMBED_PROBLEMS AND NOT KILN_DEVICE_TARGETS)
    message(FATAL_ERROR
      "KILN_EMBED_PROBLEMS needs -DKILN_DEVICE_TARGETS=...: the targets to compile for")
  endif()
  if(KILN_EMBED_PROBLEMS AND (NOT EXISTS "${KILN_EMBED_PROBLEMS}"
      OR IS_DIRECTORY "${KILN_EMBED_PROBLEMS}"))
    message(FATAL_ERROR "KILN_EMBED_PROBLEMS: there is no file '${KILN_EMBED_PROBLEMS}'")
  endif()
  set(KILN_BUILT_IN_TARGETS ${targets} PARENT_SCOPE)
endfunction()

kiln_embed_needs_build()
kiln_embed_databases()
kiln_embed_package()
kiln_embed_targets()
