-- kernels.db, schema 5: usage accounting (the compile time that hits have saved, for each user, and
-- for each target and program), and the history of metrics.

-- Compile times are in microseconds. The row with uid -1 counts all users without a row of their
-- own.
create table ledger_user (
    uid        integer primary key,
    saved_us   integer not null,
    hits       integer not null,
    compiles   integer not null,
    compile_us integer not null
) strict;
create table ledger_kind (
    target     text not null,
    program    text not null,
    saved_us   integer not null,
    hits       integer not null,
    compiles   integer not null,
    compile_us integer not null,
    primary key (target, program)
) strict, without rowid;
create table ledger (
    id    integer primary key check (id = 1),
    since integer not null
) strict;

-- One row covers the |span_s| seconds before |time|. Periods without a request have no row.
create table history (
    time              integer primary key,
    span_s            integer not null,
    requests          integer not null,
    refused           integer not null,
    fetches           integer not null,
    hits_hot          integer not null,
    hits_disk         integer not null,
    hits_package      integer not null,
    hits_remote       integer not null,
    misses_new        integer not null,
    misses_damaged    integer not null,
    misses_store      integer not null,
    misses_uncached   integer not null,
    misses_remembered integer not null,
    misses_unknown    integer not null,
    misses_refused    integer not null,
    coalesced         integer not null,
    compiles          integer not null,
    compile_errors    integer not null,
    compile_us        integer not null,
    saved_us          integer not null,
    evictions         integer not null,
    store_bytes       integer not null,
    store_objects     integer not null,
    hot_bytes         integer not null,
    clients           integer not null
) strict;
