/**
 * `is_empty_v1` returns whether the store has no animals and no orders, and no ids of a copied store.
 * `seed_v1` adds animals with their ids and complete JSON texts, and orders. It returns false if the store is not empty.
 * `reset_v1` replaces all animals and orders by a seed, and removes idempotency keys, windows and bans.
 * `expire_v1` removes some expired idempotency keys, and returns their number. If it is 2,000, there may be more.
 */
export const WRITE_FUNCTIONS = `
create function pets.is_empty_v1() returns boolean
language sql stable
as $$
  select last_id = 0
    and not exists (select from pets.animals)
    and not exists (select from pets.orders)
  from pets.meta;
$$;

create function pets.seed_v1(ids bigint[], statuses smallint[], bodies text[], orders text[])
returns boolean
language plpgsql
as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform from pets.meta where one for update;
  if not pets.is_empty_v1() then
    return false;
  end if;
  insert into pets.animals (id, status, body)
    select item.id, item.status, item.body from unnest(ids, statuses, bodies) as item (id, status, body);
  insert into pets.orders (position, body)
    select item.n, item.body from unnest(orders) with ordinality as item (body, n);
  return true;
end
$$;

-- DELETE needs no other privilege than a server has. TRUNCATE would need one more, would wait for all reads, and would empty
-- the table for transactions that began earlier, such as those of pg_dump.
create function pets.reset_v1(ids bigint[], statuses smallint[], bodies text[], orders text[])
returns void
language plpgsql
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'pets.reset_v1 needs the isolation level READ COMMITTED' using errcode = '0A000';
  end if;
  -- Creations wait for this lock until the reset is committed.
  perform from pets.meta where one for update;
  delete from pets.animals;
  delete from pets.orders;
  delete from pets.idempotency;
  update pets.meta set last_id = 0 where one;
  perform pets.seed_v1(ids, statuses, bodies, orders);
  -- Locks the rows in the same order as take_v1, which also needs that they are never removed. Servers notice the new version.
  perform from pets.callers order by caller for update;
  update pets.callers
  set minute = default, minute_used = default, day = default, day_used = default, refused_window = default,
    first_refused = default, counted = default, banned_until = default, version = version + 1;
end
$$;

-- Several servers can call the function at a time: each skips the rows that another one is removing.
create function pets.expire_v1(at_ms bigint default null) returns int
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  -- A variable, because the index cannot be used with a clock that changes during the statement.
  expired timestamptz := coalesce(to_timestamp(at_ms / 1000.0), clock_timestamp()) - interval '24 hours';
  removed int;
begin
  delete from pets.idempotency
  where fingerprint = any (array(
    select fingerprint
    from pets.idempotency
    where at <= expired
    order by at
    limit 2000
    for update skip locked
  ));
  get diagnostics removed = row_count;
  return removed;
end
$$;
`;
