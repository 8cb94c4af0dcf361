-- tuning.db, schema 1. docs/formats/tuning-db.md describes the columns.
-- A released migration is never edited: the next change is 0002-*.sql.

create table record (
    id          integer primary key,
    tier        integer not null,
    uid         integer not null,
    kind        integer not null,
    database_id text not null,
    backend     text not null,
    key         blob not null,
    content     blob not null,
    unique (tier, uid, kind, database_id, backend, key)
) strict;

create table system_file (
    id          integer primary key,
    kind        integer not null,
    database_id text not null,
    backend     text not null,
    content     blob not null,
    unique (kind, database_id, backend)
) strict;

-- The numbers of rows in the two tables, from which salvage computes how many rows it did not find.
create table tally (
    id      integer primary key,
    number  integer not null,
    inverse integer not null
) strict;
insert into tally values (1, 0, -1), (2, 0, -1);
