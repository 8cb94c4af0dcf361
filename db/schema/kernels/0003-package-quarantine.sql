-- kernels.db, schema 3: rows of packages that failed their check are told of beside the store's own.
alter table quarantine add column package text not null default '';

-- Which versions of MIOpen somebody has kernels of.
create index kernel_of_version on kernel (scope, database_id) where database_id <> '';
