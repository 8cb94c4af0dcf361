-- kernels.db, schema 3: the quarantine also records rows of packages that failed their check.
alter table quarantine add column package text not null default '';

-- Finds the versions of MIOpen that a user has kernels of.
create index kernel_of_version on kernel (scope, database_id) where database_id <> '';
