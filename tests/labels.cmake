# Labels of the tests, for ctest -L and -LE:
#
#   lint, unit, integration, kernels, faults, ...  the kind of the test: the first part of its name
#   quick     scripts/test runs these: none takes more than 10 s on an idle core
#   long      all others: compilers, files damaged byte by byte, processes killed repeatedly
#   no-asan   .ci/run omits these with the address sanitizer: they spend minutes in compilers, or
#             kill and restart processes; shorter tests run the same code
#   no-tsan   .ci/run omits these with the thread sanitizer, for the same reason, or because only
#             one thread runs them (damaged files)

set(KILN_LONG_TESTS
  "^kernels\\." "^python\\." "^gpu\\.(programs|script)$"
  "^attack\\.(lookups|long_batches|unread|bomb_import|large_copies|nearest|endless_sources)$"
  "^attack\\.(slow_transfers|scans|exports|builds|large_exports|clears|puts|queue)$"
  "^attack\\.(control_characters|system_files)$"
  "^integration\\.(caches|disk|doctor|find_tune|packages|resnet50|restart|sandbox|store)$"
  "^integration\\.(targets|work)$"
  "_kill$" "worker_process$" "_damage$" "db\\.snapshot$")
list(JOIN KILN_LONG_TESTS "|" KILN_LONG_TESTS)

set(KILN_NO_ASAN_TESTS
  "^kernels\\."
  "^integration\\.(work|find_tune|targets|packages|store|restart|doctor|resnet50|caches|sandbox)$"
  "worker_process$" "tuning_db_kill$" "tuning_kill$" "^faults\\.daemon$")
set(KILN_NO_TSAN_TESTS ${KILN_NO_ASAN_TESTS}
  "_damage|_damaged|_flips|_salvage|_limit$" "db\\.snapshot$" "page_scan$" "kern_db_live$"
  "solver\\.")
list(JOIN KILN_NO_ASAN_TESTS "|" KILN_NO_ASAN_TESTS)
list(JOIN KILN_NO_TSAN_TESTS "|" KILN_NO_TSAN_TESTS)

# kiln_add_test(NAME name COMMAND ...): add_test with the labels.  Long tests begin first, so that
# no processor waits for the last one.
function(kiln_add_test name_keyword name)
  add_test(${ARGV})
  string(REGEX MATCH "^[^.]+" labels ${name})
  foreach(label IN ITEMS LONG NO_ASAN NO_TSAN)
    if(name MATCHES "${KILN_${label}_TESTS}")
      string(TOLOWER ${label} word)
      string(REPLACE "_" "-" word ${word})
      list(APPEND labels ${word})
    elseif(label STREQUAL LONG)
      list(APPEND labels quick)
    endif()
  endforeach()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}")
  if("long" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
endfunction()
