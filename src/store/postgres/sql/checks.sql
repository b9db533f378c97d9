-- Raises the error of a call that must not be carried out. The other functions call it if the isolation level is wrong,
-- if the database server is a standby server (which may lag), if the store in the database does not have the id
-- `store`, or if its schema does not have the version `known`.
create function pets.refuse(store uuid, known int) returns void
language plpgsql
set search_path = pg_catalog, pets, pg_temp
as $$
declare
  found_id uuid;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'the functions of the schema pets need the isolation level READ COMMITTED'
      using errcode = '0A000';
  end if;
  if pg_is_in_recovery() then
    raise exception 'the server is a standby server'
      using errcode = 'PETS1', hint = 'use the address of the primary server';
  end if;
  select id into found_id from pets.meta where one;
  if found_id is distinct from store then
    raise exception 'the database does not contain the store % any more, but %', store, coalesce(found_id::text, 'none')
      using errcode = 'PETS1', hint = 'restore that store, or start the server again to use the other one';
  end if;
  raise exception 'the schema pets belongs to another version of pets'
    using errcode = 'PETS1', hint = 'use the version of pets that created it';
end
$$;

-- Raises an error if the database server is a standby server, if the database does not contain this store with this
-- version of the schema, or if the role may not read the keys. Only rarely called functions call it, because a nested
-- call takes time. The other functions contain their own checks. pets serve also calls it on each new connection.
create function pets.check_store(store uuid, known int) returns void
language plpgsql
set search_path = pg_catalog, pets, pg_temp
as $$
begin
  if pg_is_in_recovery()
    or not exists (select from pets.meta where one and meta.id = store and version = known)
  then
    perform pets.refuse(store, known);
  end if;
  perform from pets.keys limit 0;
end
$$;
