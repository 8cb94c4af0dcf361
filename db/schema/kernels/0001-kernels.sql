-- kernels.db, schema 1. docs/formats/kernels-db.md describes the columns.
-- A released migration is never edited: the next change is 0002-*.sql.

create table object (
    id          integer primary key,
    sha256      blob not null unique,
    codec       integer not null,
    raw_size    integer not null,
    stored_size integer not null,
    bytes       blob not null
) strict;

create table kernel (
    id           integer primary key,
    key          blob not null unique,
    object       integer not null references object (id),
    claim        blob not null,
    target       text not null,
    toolchain    text not null,
    toolchain_id blob not null,
    program      text not null,
    options      text not null,
    compile_ns   integer not null,
    created      integer not null,
    uid          integer not null,
    row_bytes    integer not null
) strict;
create index kernel_by_object on kernel (object);

create table recency (
    kernel    integer primary key,
    last_used integer not null,
    uses      integer not null,
    keep      integer not null
) strict;
create index recency_by_keep on recency (keep);

create table quarantine (
    id        integer primary key,
    found     integer not null,
    reason    text not null,
    key       blob,
    sha256    blob,
    codec     integer,
    raw_size  integer,
    target    text,
    toolchain text,
    program   text,
    bytes     blob
) strict;

create table probe (
    toolchain_id blob not null,
    target       text not null,
    works        integer not null,
    detail       text not null,
    made         integer not null,
    primary key (toolchain_id, target)
) strict, without rowid;

create table usage (
    id           integer primary key check (id = 1),
    kernels      integer not null,
    objects      integer not null,
    stored_bytes integer not null,
    raw_bytes    integer not null,
    row_bytes    integer not null
) strict;
insert into usage values (1, 0, 0, 0, 0, 0);

-- Triggers keep counters and dependent rows consistent, whichever statement deletes a kernel.
create trigger object_added after insert on object begin
    update usage set objects = objects + 1, stored_bytes = stored_bytes + new.stored_size,
                     raw_bytes = raw_bytes + new.raw_size;
end;
create trigger object_gone after delete on object begin
    update usage set objects = objects - 1, stored_bytes = stored_bytes - old.stored_size,
                     raw_bytes = raw_bytes - old.raw_size;
end;
create trigger kernel_added after insert on kernel begin
    update usage set kernels = kernels + 1, row_bytes = row_bytes + new.row_bytes;
end;
create trigger kernel_gone after delete on kernel begin
    update usage set kernels = kernels - 1, row_bytes = row_bytes - old.row_bytes;
    delete from recency where kernel = old.id;
    delete from object where id = old.object
        and not exists (select 1 from kernel where object = old.object);
end;
