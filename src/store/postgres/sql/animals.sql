-- Adds animals, and returns a row for each: its number in the arrays from 1, `added`, `replayed` or `mismatch`, the id
-- if it was added, and the JSON text of the first response if it was replayed. The result contains no other texts,
-- because a client that does not read a large result would keep the lock on pets.meta.
--
-- `bodies` contains the JSON texts after the id, such as `,"name":"Rex"}`. `fingerprints` and `hashes` contain the two
-- halves of the fingerprints of idempotency keys, or null for animals without a key. A fingerprint must not occur twice.
-- `at_ms` replaces the clock in tests.
--
-- Ids are ascending, and other transactions see animals in the order of their ids: each transaction that adds animals
-- locks the row of pets.meta until it has committed, and reads the highest id only after it has the lock. Each
-- statement of the function sees what was committed before the statement, if the isolation level is READ COMMITTED.
create function pets.create_animals(
  store uuid,
  known_version int,
  statuses smallint[],
  bodies text[],
  fingerprints bytea[],
  hashes bytea[],
  at_ms bigint default null
) returns table (n int, kind text, id bigint, response text)
language plpgsql
set search_path = pg_catalog, pets, pg_temp
-- Use one plan in each session, and never read the whole table: it may be small when the plan is made, and grow later.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
-- The wait for a lock must end before pets serve stops waiting for the call. pgbouncer refuses this setting on connect.
set lock_timeout = '1400ms'
as $$
#variable_conflict use_column
declare
  base bigint;
  time_now timestamptz;
  -- The ids of the animals; null for those that are not added.
  ids bigint[];
  -- Null if no animal has an idempotency key: all animals are then added.
  kinds text[];
  responses text[];
begin
  perform from pets.meta where one for update;
  perform pets.check_store(store, known_version);
  -- The response to a creation is sent when the transaction has committed, so the commit must be on the disk.
  perform set_config('synchronous_commit', 'on', true);

  -- A plan for max(id) that was made while the table was empty could read all ids.
  select greatest(last_id, (select id from pets.animals order by id desc limit 1))
    into strict base
    from pets.meta where one;

  -- Skip this part if no animal has an idempotency key. The function then takes about 0.6 times as long.
  if num_nonnulls(variadic fingerprints) > 0 then
    time_now := coalesce(to_timestamp(at_ms / 1000.0), clock_timestamp());
    -- Calls with keys also remove expired ones: up to two for each animal, so that the call does not take long.
    delete from pets.idempotency
    where fingerprint = any (array(
      select fingerprint from pets.idempotency
      where at <= time_now - interval '24 hours'
      order by at
      limit 2 * cardinality(fingerprints)
    ));

    select array_agg(id order by n), array_agg(kind order by n), array_agg(response order by n)
      into ids, kinds, responses
      from (
        select n, kind,
          case kind when 'added' then base + row_number() over (partition by kind order by n) end as id,
          case kind when 'replayed' then used.response end as response
        from unnest(fingerprints, hashes) with ordinality as item (fingerprint, hash, n)
        -- The limit makes the planner look up each fingerprint in the index, instead of reading all rows.
        left join lateral (
          select k.body, k.response, k.at from pets.idempotency k where k.fingerprint = item.fingerprint limit 1
        ) used on true
        cross join lateral (
          select case
            when used.at is null or used.at <= time_now - interval '24 hours' then 'added'
            when used.body = item.hash then 'replayed'
            else 'mismatch'
          end as kind
        ) decided
      ) numbered;

    insert into pets.idempotency (fingerprint, body, response, at)
      select item.fingerprint, item.hash, '{"id":' || item.id || item.body, time_now
      from unnest(fingerprints, hashes, bodies, ids) as item (fingerprint, hash, body, id)
      where item.id is not null and item.fingerprint is not null
      -- If there is a conflict, the key was used 24 hours ago or earlier.
      on conflict (fingerprint) do update
        set body = excluded.body, response = excluded.response, at = excluded.at;
  else
    ids := array(select generate_series(base + 1, base + cardinality(bodies)));
  end if;

  insert into pets.animals (id, status, body)
    select item.id, item.status, '{"id":' || item.id || item.body
    from unnest(ids, statuses, bodies) as item (id, status, body)
    where item.id is not null;
  return query
    select item.n::int, coalesce(item.kind, 'added'), item.id, item.response
    from unnest(ids, kinds, responses) with ordinality as item (id, kind, response, n);
end
$$;

-- Reads pages of animals. `wanted` contains the status of each page (null: all animals), `first_ids` its lowest
-- possible id, and `max_counts` how many animals it has at most. Returns a row for each page: its number in the arrays
-- from 1, the JSON texts of its animals separated by commas, and the id of its last animal as `next_id`, or null if no
-- more animals follow. A page ends after 1 MiB.
create function pets.read_pages(
  store uuid,
  known_version int,
  wanted smallint[],
  first_ids bigint[],
  max_counts int[]
) returns table (n int, animals text, next_id bigint)
language plpgsql
set search_path = pg_catalog, pets, pg_temp
-- Use one plan in each session, and never read the whole table: it may be small when the plan is made, and grow later.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
as $$
declare
  max_bytes constant int := 1048576;
  first_id bigint;
  max_count int;
  ids bigint[];
  bodies text[];
  length int;
  bytes int;
begin
  perform pets.check_store(store, known_version);

  for i in 1 .. cardinality(first_ids) loop
    n := i;
    first_id := first_ids[i];
    max_count := max_counts[i];
    -- Each statement contains its status as a literal, because only then can it use the index for this status. The
    -- subqueries read one animal more than a page may have, to see whether more animals follow.
    if wanted[i] is null then
      select array_agg(id), array_agg(body) into ids, bodies from (
        select id, body from pets.animals where id >= first_id order by id limit max_count + 1
      ) page;
    elsif wanted[i] = 0 then
      select array_agg(id), array_agg(body) into ids, bodies from (
        select id, body from pets.animals where status = 0 and id >= first_id order by id limit max_count + 1
      ) page;
    elsif wanted[i] = 1 then
      select array_agg(id), array_agg(body) into ids, bodies from (
        select id, body from pets.animals where status = 1 and id >= first_id order by id limit max_count + 1
      ) page;
    else
      select array_agg(id), array_agg(body) into ids, bodies from (
        select id, body from pets.animals where status = 2 and id >= first_id order by id limit max_count + 1
      ) page;
    end if;

    length := least(cardinality(ids), max_count);
    animals := coalesce(array_to_string(bodies[:length], ','), '');
    if octet_length(animals) > max_bytes then
      length := 0;
      bytes := 0;
      while bytes < max_bytes loop
        length := length + 1;
        bytes := bytes + octet_length(bodies[length]) + 1;
      end loop;
      animals := array_to_string(bodies[:length], ',');
    end if;
    next_id := case when length < cardinality(ids) then ids[length] end;
    return next;
  end loop;
end
$$;
