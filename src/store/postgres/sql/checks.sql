-- Raises an error if the database server is a standby server (which may lag), if the database does not contain this
-- store with this version of the schema, if a transaction that can write has another isolation level than READ
-- COMMITTED, or if the role may not read the keys. pets serve also calls it on each new connection.
create function pets.check_store(store uuid, known int) returns void
language plpgsql
set search_path = pg_catalog, pets, pg_temp
as $$
declare
  found_id uuid;
  found_version int;
begin
  if pg_is_in_recovery() then
    raise exception 'the server is a standby server'
      using errcode = 'PETS1', hint = 'use the address of the primary server';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' and current_setting('transaction_read_only') = 'off' then
    raise exception 'the functions of the schema pets need the isolation level READ COMMITTED'
      using errcode = '0A000', hint = 'ALTER ROLE ... SET default_transaction_isolation = ''read committed''';
  end if;
  select id, version into found_id, found_version from pets.meta where one;
  if found_id is distinct from store then
    raise exception 'the database does not contain the store % any more, but %', store, coalesce(found_id::text, 'none')
      using errcode = 'PETS1', hint = 'restore that store, or start the server again to use the other one';
  end if;
  if found_version is distinct from known then
    raise exception 'the schema pets belongs to another version of pets'
      using errcode = 'PETS1', hint = 'use the version of pets that created it';
  end if;
  perform from pets.keys limit 0;
end
$$;
