# Labels of the tests, for ctest -L and -LE:
#
#   lint, unit, integration, kernels, faults, ...  kind of the test: first part of its name
#   quick     tests that scripts/test runs; none takes more than 10 s on an idle core
#   long      all others: they run compilers, damage files byte by byte, kill processes
#             repeatedly, or wait for many time limits
#   no-asan   tests that .ci/run omits with the address sanitizer.  They spend minutes in compilers,
#             or kill and restart processes, and shorter tests run the same code.  Lints are
#             omitted, too, because they run no program
#   no-tsan   tests that .ci/run omits with the thread sanitizer: for the reasons above, because
#             their programs start no thread, or because other tests use the same threads

set(KILN_LONG_TESTS
  "^kernels\\." "^python\\." "^gpu\\.(programs|script)$"
  "^attack\\.(lookups|long_batches|unread|bomb_import|large_copies|nearest|endless_sources)$"
  "^attack\\.(slow_transfers|scans|exports|builds|large_exports|clears|puts|queue)$"
  "^attack\\.(churn|tuning_files|perf_files|tuning_verify|tuning_exports|parallel_exports)$"
  "^attack\\.(tiny_rows|damaged_caches|kept_kernels|large_results)$"
  "^attack\\.(control_characters|system_files)$" "^rtc\\.(comgr|programs|python)$"
  "^fleet\\.faults$"
  "^integration\\.(caches|disk|doctor|find_tune|packages|resnet50|restart|sandbox|store)$"
  "^integration\\.(targets|work|find_soon)$"
  "_kill$" "worker_process$" "_damage$" "db\\.snapshot$" "^faults\\.daemon$"
  "tuning\\.tuning_files$")
list(JOIN KILN_LONG_TESTS "|" KILN_LONG_TESTS)

set(KILN_NO_ASAN_TESTS
  "^kernels\\." "^lint\\." "^manual\\." "^rtc\\.python$" "^gpu\\.programs$"
  "solver\\.(extremes|space_parts|conv_bulk_points)$"
  "^integration\\.(work|find_tune|targets|packages|store|restart|doctor|resnet50|caches|disk)$"
  "^integration\\.(sandbox|find_soon|plan_records|tuning_cli|reload|tools|metrics)$"
  "kernel_store_limit$" "worker_process$" "tuning_db_kill$" "tuning_kill$" "^faults\\.daemon$")
set(KILN_NO_TSAN_TESTS ${KILN_NO_ASAN_TESTS} "_salvage$" "caches_damaged$" "db\\.snapshot$"
  "page_scan$" "conv_ranks$" "\\.(install_kernels|slurm_scripts|prometheus)$"
  "^integration\\.(limits|tuning_api)$" "^load\\.fairness$")
# Programs that start threads; other tests have the label no-tsan.
set(KILN_THREADED_TESTS "^integration\\." "^load\\." "^fuzz\\.live$" "_threads$"
  "^unit\\.(daemon|libclient)\\." "^unit\\.engine\\.(db|embed|transfer)\\."
  "tuning_db_disk$" "kernel_store_kill$" "driver_(ahead|measure)$" "kilnctl_prefetch$")
list(JOIN KILN_THREADED_TESTS "|" KILN_THREADED_TESTS)
list(JOIN KILN_NO_ASAN_TESTS "|" KILN_NO_ASAN_TESTS)
list(JOIN KILN_NO_TSAN_TESTS "|" KILN_NO_TSAN_TESTS)

# The targets without-no-asan and without-no-tsan build the programs of the tests that do not have
# the label. Tests of installed programs and of scripts use all programs.
foreach(label no-asan no-tsan)
  add_custom_target(without-${label}
    DEPENDS kilnd kiln-compiler kiln-transfer kiln-launch kilnctl kiln-driver)
endforeach()

# Ends a test that hangs. No test depends on speed, and each wait in a test has a bound of its own.
set(KILN_TEST_MAX_S 1200)

# kiln_add_test(NAME name COMMAND program ...): add_test with the labels.  Long tests begin first,
# so that no processor is idle while the last one runs.
function(kiln_add_test name_keyword name command_keyword program)
  add_test(${ARGV})
  string(REGEX MATCH "^[^.]+" labels ${name})
  foreach(label IN ITEMS LONG NO_ASAN NO_TSAN)
    if(name MATCHES "${KILN_${label}_TESTS}"
        OR (label STREQUAL "NO_TSAN" AND NOT name MATCHES "${KILN_THREADED_TESTS}"))
      string(TOLOWER ${label} word)
      string(REPLACE "_" "-" word ${word})
      list(APPEND labels ${word})
    elseif(label STREQUAL LONG)
      list(APPEND labels quick)
    endif()
  endforeach()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${KILN_TEST_MAX_S})
  if("long" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
  foreach(label no-asan no-tsan)
    if(TARGET ${program} AND NOT label IN_LIST labels)
      add_dependencies(without-${label} ${program})
    endif()
  endforeach()
endfunction()
