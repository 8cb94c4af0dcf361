-- kernels.db, schema 6: names the tables of the usage accounting after it, and removes the
-- history's column for hits of a remote tier, which does not exist.
alter table ledger_user rename to accounting_user;
alter table ledger_kind rename to accounting_kind;
alter table ledger rename to accounting;
alter table history drop column hits_remote;
