-- kernels.db, schema 8: what a stored object is, so that results of compiles that programs did
-- themselves can be counted, listed and promoted apart from code objects.
alter table kernel add column kind       integer not null default 0;
alter table kernel add column client_key blob not null default x'';
create index kernel_of_client on kernel (client_key, object) where client_key <> x'';
