-- tuning.db, schema 4: the checksum of what the promotion wrote, so that undoing it leaves records
-- that were changed since.  Of an older promotion, the records as they are now.

alter table before_promotion add column written blob;

update before_promotion set written = (
    select substr(r.content, 1, 8) from record r
    where r.tier = 2 and r.uid = 4294967295 and r.kind = before_promotion.kind
      and r.database_id = before_promotion.database_id and r.backend = before_promotion.backend
      and r.key = before_promotion.key);
