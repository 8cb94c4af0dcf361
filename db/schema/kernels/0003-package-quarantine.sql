-- kernels.db, schema 3: the quarantine also records rows of packages that failed their check.
alter table quarantine add column package text not null default '';

-- Serves to find the versions of MIOpen from which a user has kernels.
create index kernel_of_version on kernel (scope, database_id) where database_id <> '';
