-- kernels.db, schema 6: the tables of the usage accounting have its name; a history without the
-- column for hits of a remote tier, which does not exist.
alter table ledger_user rename to accounting_user;
alter table ledger_kind rename to accounting_kind;
alter table ledger rename to accounting;
alter table history drop column hits_remote;
