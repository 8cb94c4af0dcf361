-- tuning.db, schema 2: puts that were recorded lately, so that one which is sent again because a
-- connection was lost does not count twice.  Bounded; worth nothing once it is older than a request.

create table recent_put (
    id    integer primary key,
    uid   integer not null,
    token blob not null,
    unique (uid, token)
) strict;
