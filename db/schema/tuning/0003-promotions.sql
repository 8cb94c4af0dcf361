-- tuning.db, schema 3: the host's records from before the last promotion that changed any, so that
-- it can be undone. If the content is null, the host had no such record.

create table before_promotion (
    id          integer primary key,
    kind        integer not null,
    database_id text not null,
    backend     text not null,
    key         blob not null,
    content     blob,
    unique (kind, database_id, backend, key)
) strict;
