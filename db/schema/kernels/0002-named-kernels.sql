-- kernels.db, schema 2: kernels that are found by MIOpen's name, pinned kernels, and the space that
-- each user takes.

alter table kernel add column scope       integer not null default -1;
alter table kernel add column database_id text not null default '';
alter table kernel add column package     text not null default '';
alter table kernel add column version     text not null default '';
alter table kernel add column source_id   blob not null default x'';
alter table kernel add column headers_id  blob not null default x'';
create index kernel_by_program on kernel (program);
create index kernel_named on kernel (database_id, scope) where database_id <> '';

-- Eviction reads only this table, which has the order of all kernels and of the kernels of each
-- user.
alter table recency add column uid    integer not null default 0;
alter table recency add column pinned integer not null default 0;
update recency set uid = coalesce((select uid from kernel where id = recency.kernel), 0);
drop index recency_by_keep;
create index recency_by_keep on recency (keep) where pinned = 0;
create index recency_of_uid on recency (uid, keep) where pinned = 0;
create index recency_pinned on recency (kernel) where pinned = 1;

create table usage_uid (
    uid     integer primary key,
    kernels integer not null,
    bytes   integer not null
) strict;
insert into usage_uid
    select k.uid, count(*), sum(k.row_bytes + coalesce(o.stored_size, 0))
    from kernel k left join object o on o.id = k.object group by k.uid;

drop trigger kernel_added;
create trigger kernel_added after insert on kernel begin
    update usage set kernels = kernels + 1, row_bytes = row_bytes + new.row_bytes;
    insert into usage_uid values (new.uid, 1, new.row_bytes
        + coalesce((select stored_size from object where id = new.object), 0))
        on conflict (uid) do update set kernels = kernels + 1, bytes = bytes + excluded.bytes;
end;
drop trigger kernel_gone;
create trigger kernel_gone after delete on kernel begin
    update usage set kernels = kernels - 1, row_bytes = row_bytes - old.row_bytes;
    update usage_uid set kernels = kernels - 1, bytes = bytes - old.row_bytes
        - coalesce((select stored_size from object where id = old.object), 0)
        where uid = old.uid;
    delete from usage_uid where uid = old.uid and kernels <= 0;
    delete from recency where kernel = old.id;
    delete from object where id = old.object
        and not exists (select 1 from kernel where object = old.object);
end;
