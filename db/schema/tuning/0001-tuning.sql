-- tuning.db, schema 1.  docs/formats/tuning-db.md says what the columns mean.
-- Forward only: never edited once released, the next change is 0002-*.sql.

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

-- How many rows the two tables have, so that salvage knows what it did not find.
create table tally (
    id      integer primary key,
    number  integer not null,
    inverse integer not null
) strict;
insert into tally values (1, 0, -1), (2, 0, -1);
