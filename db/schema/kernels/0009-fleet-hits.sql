-- kernels.db, schema 9: the history also counts kernels that other hosts of the fleet compiled.
alter table history add column hits_fleet integer not null default 0;
