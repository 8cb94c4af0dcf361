-- tuning.db, schema 2: puts (recordings of measurements) that were made recently. If a client loses
-- its connection and sends a put again, the put does not count twice. The table is bounded, and a
-- row is useless once it is older than a request may be.

create table recent_put (
    id    integer primary key,
    uid   integer not null,
    token blob not null,
    unique (uid, token)
) strict;
