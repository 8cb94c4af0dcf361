-- tuning.db, schema 4: a checksum of what the promotion wrote, so that undoing it leaves records
-- alone that were changed since. For an older promotion, it is the checksum of the present records.

alter table before_promotion add column written blob;

update before_promotion set written = (
    select substr(r.content, 1, 8) from record r
    where r.tier = 2 and r.uid = 4294967295 and r.kind = before_promotion.kind
      and r.database_id = before_promotion.database_id and r.backend = before_promotion.backend
      and r.key = before_promotion.key);
