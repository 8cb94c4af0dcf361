-- kernels.db, schema 7: large objects are stored in pieces, so that no transaction writes more than
-- one of them. Pieces that belong to no object are removed later.
alter table object add column piece_set integer not null default 0;
create unique index object_of_pieces on object (piece_set) where piece_set > 0;

create table piece (
    id        integer primary key,
    piece_set integer not null,
    codec     integer not null,
    raw_size  integer not null,
    bytes     blob not null
) strict;
create index piece_of_set on piece (piece_set);

create trigger pieces_gone after delete on object when old.piece_set > 0 begin
    delete from piece where piece_set = old.piece_set;
end;
