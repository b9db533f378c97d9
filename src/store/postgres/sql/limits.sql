-- Counts requests (docs/service.md 8). Each caller has a row in pets.callers with its windows, its refused requests and
-- its ban. All times are in milliseconds since the epoch.
--
-- Each call decides `counts[n]` requests of each caller: the first `granted` are within both quotas, the next `refused`
-- exceed a quota, and a ban rejects the rest. If `begins_ban` is true, the first request of the rest began the ban. With
-- a count of 0, nothing changes. A caller must not occur twice. `ban_after` is how many refused requests in a minute, as
-- counted below, begin a ban (0: none do), and `ban_for` how long it lasts. `at_ms` replaces the clock in tests.
create function pets.take(
  store uuid,
  known_version int,
  callers bytea[],
  counts int[],
  per_minute bigint[],
  per_day bigint[],
  ban_after int,
  ban_for bigint,
  at_ms bigint default null
) returns table (
  n int,
  granted int,
  refused int,
  begins_ban boolean,
  minute_end bigint,
  minute_used bigint,
  day_end bigint,
  day_used bigint,
  banned_until bigint,
  now bigint
)
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
  minute constant bigint := 60000;
  day constant bigint := 86400000;
  id bytea;
  stored pets.callers;
  minute_left bigint;
  day_left bigint;
  window_end bigint;
  recent bigint[];
  refusals_to_ban int;
  has_new_ban boolean := false;
begin
  perform pets.check_store(store, known_version);

  -- Rows are locked in one order, so that transactions never wait for each other in a circle. No row is ever removed.
  for n, id in
    select item.n, item.caller from unnest(callers) with ordinality as item (caller, n) order by item.caller
  loop
    -- Calls that only read the counts must not wait for others.
    if counts[n] = 0 then
      select * into stored from pets.callers c where c.caller = id;
    else
      select * into stored from pets.callers c where c.caller = id for update;
      if not found then
        insert into pets.callers (caller) values (id) on conflict do nothing;
        select * into strict stored from pets.callers c where c.caller = id for update;
      end if;
    end if;
    if stored.caller is null then
      stored := row(id, 0, 0, 0, 0, 0, 0, '{}', 0);
    end if;
    now := coalesce(at_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);

    -- A window lasts until the end of the UTC minute or day. It also goes on if the clock was set back, unless its
    -- end is now more than two windows away. If it began again, a caller could use the same quota twice.
    if stored.minute_end <= now or stored.minute_end > now + 2 * minute then
      stored.minute_end := now - now % minute + minute;
      stored.minute_used := 0;
    end if;
    if stored.day_end <= now or stored.day_end > now + 2 * day then
      stored.day_end := now - now % day + day;
      stored.day_used := 0;
    end if;

    -- A ban never lasts longer than a ban that begins now. A longer one began under another rule, or while the clock
    -- was ahead.
    stored.banned_until := least(stored.banned_until, now + case when ban_after > 0 then ban_for else 0 end);
    granted := 0;
    refused := 0;
    begins_ban := false;
    if stored.banned_until <= now then
      minute_left := greatest(0, per_minute[n] - stored.minute_used);
      day_left := greatest(0, per_day[n] - stored.day_used);
      granted := least(counts[n], minute_left, day_left);
      refused := counts[n] - granted;
      stored.minute_used := stored.minute_used + granted;
      stored.day_used := stored.day_used + granted;
    end if;

    -- Refused requests count toward a ban only if a second has passed since the first refused request of the window:
    -- the client may have sent earlier ones before it received the first 429 (docs/service.md 8.4, D9).
    if refused > 0 and ban_after > 0 then
      window_end := case when day_left <= minute_left then stored.day_end else stored.minute_end end;
      recent := array(select at from unnest(stored.counted) as at where now - at < minute);
      refusals_to_ban := greatest(1, ban_after - cardinality(recent));
      if stored.refused_window <> window_end then
        stored.refused_window := window_end;
        stored.first_refused := now;
        stored.counted := recent;
      elsif now - stored.first_refused >= 1000 then
        if refused < refusals_to_ban then
          stored.counted := recent || array_fill(now, array[refused]);
        else
          stored.counted := '{}';
          stored.banned_until := now + ban_for;
          begins_ban := true;
          refused := refusals_to_ban - 1;
        end if;
      end if;
    end if;

    if counts[n] > 0 then
      update pets.callers c
      set minute_end = stored.minute_end, minute_used = stored.minute_used,
        day_end = stored.day_end, day_used = stored.day_used,
        refused_window = stored.refused_window, first_refused = stored.first_refused,
        counted = stored.counted, banned_until = stored.banned_until
      where c.caller = id;
    end if;
    minute_end := stored.minute_end;
    minute_used := stored.minute_used;
    day_end := stored.day_end;
    day_used := stored.day_used;
    banned_until := stored.banned_until;
    has_new_ban := has_new_ban or begins_ban;
    return next;
  end loop;

  -- A ban must be on the disk before the response that announces it. Other changes need not be: a crash of the database
  -- can lose the last counts, but none of an acknowledged creation, because its commit also writes all earlier commits.
  perform set_config('synchronous_commit', case when has_new_ban then 'on' else 'off' end, true);
end
$$;

-- If a caller has a ban, ends it, and forgets the refused requests. The change is on the disk when the call returns.
create function pets.lift_ban(store uuid, known_version int, id bytea) returns void
language plpgsql
set search_path = pg_catalog, pets, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set lock_timeout = '1400ms'
as $$
begin
  perform pets.check_store(store, known_version);
  update pets.callers
  set banned_until = 0, refused_window = 0, first_refused = 0, counted = '{}'
  where caller = id and banned_until > 0;
  perform set_config('synchronous_commit', 'on', true);
end
$$;
