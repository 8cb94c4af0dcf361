-- kernels.db, schema 4: the order in which the private kernels of a user are evicted. With it,
-- making space for an import reads no other rows.
alter table recency add column scope integer not null default -1;
update recency set scope = (select scope from kernel where id = recency.kernel)
    where kernel in (select id from kernel where scope <> -1);
create index recency_private on recency (uid, keep) where pinned = 0 and scope <> -1;
