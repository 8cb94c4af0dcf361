#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes a kernel database as MIOpen does. Uses sqlite3, bzip2 and md5sum, and no code of kiln.
#
# Usage: make_kern_db.sh DIRECTORY DATABASE
#
# DIRECTORY/rows.tsv has a line for each row, in the order of insertion:
#     number <tab> name <tab> arguments <tab> packed|raw
# and DIRECTORY/objects/<number> is its code object. The environment variable PRAGMAS has SQL that
# runs first, and INDEX replaces the statement that creates the index. The shell must not interpret
# the backquotes in SQL.
# shellcheck disable=SC2016
set -euo pipefail

directory=$1
database=$2
miopens='CREATE UNIQUE INDEX IF NOT EXISTS `idx_kern_db` ON kern_db(kernel_name, kernel_args);'
index=${INDEX-$miopens}

cd "$directory"
find objects -type f ! -name '*.bz2' -print0 | xargs -0 -r bzip2 -9 -k -f
find objects -type f ! -name '*.bz2' -print0 | xargs -0 -r md5sum | sed 's|  objects/|\t|' >sums
find objects -type f ! -name '*.bz2' -printf '%s\t%f\n' >sizes

{
    echo "${PRAGMAS-}"
    echo 'CREATE TABLE IF NOT EXISTS `kern_db` (`id` INTEGER PRIMARY KEY ASC' \
        ',`kernel_name` TEXT NOT NULL,`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL' \
        ',`kernel_hash` TEXT NOT NULL,`uncompressed_size` INT NOT NULL);'
    echo "$index"
    echo 'begin;'
    awk -F '\t' -v quote="'" '
        function text(t) { gsub(quote, quote quote, t); return quote t quote }
        FILENAME == "sums" { md5[$2] = $1; next }
        FILENAME == "sizes" { size[$2] = $1; next }
        {
            packed = $4 == "packed"
            printf "INSERT OR REPLACE INTO kern_db(kernel_name, kernel_args, kernel_blob, " \
                "kernel_hash, uncompressed_size) VALUES(%s, %s, readfile(%s), %s, %d);\n",
                text($2), text($3), text("objects/" $1 (packed ? ".bz2" : "")),
                text(md5[$1]), packed ? size[$1] : 0
        }' sums sizes rows.tsv
    echo 'commit;'
} | sqlite3 -bail "$database" >/dev/null
