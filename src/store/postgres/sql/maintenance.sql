-- All other functions. `store` is the id of the store that the server has opened, and `known_version` the version of the
-- schema that the server knows. `seed` and `reset` are called in a transaction whose commit waits for the disk.

-- Waits for the same lock as every creation. If the disk was full, adds an animal, and undoes that.
create function pets.check_writable(store uuid, known_version int, was_full boolean) returns void
language plpgsql
set search_path = pg_catalog, pets, pg_temp
set lock_timeout = '1400ms'
as $$
begin
  perform from pets.meta where one for update;
  perform pets.check_store(store, known_version);
  if not was_full then
    return;
  end if;
  -- The text is long, because the last page of the table may have space for a short one.
  insert into pets.animals (id, status, body)
  select -9223372036854775808, 0, string_agg(gen_random_uuid()::text, '') from generate_series(1, 1000);
  raise exception using errcode = 'PETS2';
exception when sqlstate 'PETS2' then
  null;
end
$$;

create function pets.count_animals(store uuid, known_version int) returns bigint
language sql
set search_path = pg_catalog, pets, pg_temp
as $$
  select pets.check_store(store, known_version);
  select count(*) from pets.animals;
$$;

create function pets.list_orders(store uuid, known_version int) returns setof text
language sql
set search_path = pg_catalog, pets, pg_temp
as $$
  select pets.check_store(store, known_version);
  select body from pets.orders order by position;
$$;

-- Adds animals with their ids and complete JSON texts, and orders. Returns false if the store is not empty or has issued ids.
create function pets.seed(store uuid, known_version int, ids bigint[], statuses smallint[], bodies text[], orders text[])
returns boolean
language plpgsql
set search_path = pg_catalog, pets, pg_temp
as $$
begin
  perform from pets.meta where one for update;
  perform pets.check_store(store, known_version);
  if exists (select from pets.animals) or exists (select from pets.orders)
    or (select last_id from pets.meta where one) > 0
  then
    return false;
  end if;
  insert into pets.animals (id, status, body)
    select item.id, item.status, item.body from unnest(ids, statuses, bodies) as item (id, status, body);
  insert into pets.orders (position, body)
    select item.n, item.body from unnest(orders) with ordinality as item (body, n);
  return true;
end
$$;

-- Replaces all animals and orders with a seed, and removes idempotency keys, windows and bans. DELETE needs no other
-- privilege than a server has. TRUNCATE would need one more, would wait for all reads, and would empty the table even
-- for transactions with an earlier snapshot.
create function pets.reset(store uuid, known_version int, ids bigint[], statuses smallint[], bodies text[], orders text[])
returns void
language plpgsql
set search_path = pg_catalog, pets, pg_temp
as $$
begin
  -- Creations wait for this lock until the reset is committed.
  perform from pets.meta where one for update;
  perform pets.check_store(store, known_version);
  delete from pets.animals;
  delete from pets.orders;
  delete from pets.idempotency;
  update pets.meta set last_id = 0 where one;
  perform pets.seed(store, known_version, ids, statuses, bodies, orders);
  -- Locks the rows in the same order as pets.take, which also needs that they are never removed.
  perform from pets.callers order by caller for update;
  update pets.callers
  set minute_end = default, minute_used = default, day_end = default, day_used = default, refused_window = default,
    first_refused = default, counted = default, banned_until = default;
end
$$;

-- How many callers are banned.
create function pets.count_bans(store uuid, known_version int, at_ms bigint default null) returns bigint
language sql
set search_path = pg_catalog, pets, pg_temp
as $$
  select pets.check_store(store, known_version);
  select count(*) from pets.callers
  where banned_until > coalesce(at_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
$$;

-- All API keys, sorted by name. Times are in milliseconds since the epoch.
create function pets.list_keys(store uuid, known_version int)
returns table (name text, plan text, per_minute bigint, per_day bigint, sha256 text, created bigint)
language sql
set search_path = pg_catalog, pets, pg_temp
as $$
  select pets.check_store(store, known_version);
  select k.name, k.plan, k.per_minute, k.per_day, encode(k.sha256, 'hex'),
    floor(extract(epoch from k.created) * 1000)::bigint
  from pets.keys k order by k.name collate "C";
$$;
