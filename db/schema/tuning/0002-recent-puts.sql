-- tuning.db, schema 2: recently recorded puts. If a client lost its connection and sends a put again,
-- it does not count twice. The table is bounded; a row older than a request is useless.

create table recent_put (
    id    integer primary key,
    uid   integer not null,
    token blob not null,
    unique (uid, token)
) strict;
