-- kernels.db, schema 4: among one user's kernels the order of those that are private to him, so that
-- making room for an import looks at no others.
alter table recency add column scope integer not null default -1;
update recency set scope = (select scope from kernel where id = recency.kernel)
    where kernel in (select id from kernel where scope <> -1);
create index recency_private on recency (uid, keep) where pinned = 0 and scope <> -1;
