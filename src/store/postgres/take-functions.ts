/**
 * `take_v1` counts `counts[i]` requests of the API key with the SHA-256 `callers[i]`, or as many as its two quotas allow. A
 * count of 0 counts nothing. A caller must not occur twice. It returns a row for each caller: its number in the arrays from
 * 1, how many requests it counted, the caller's windows and refusals afterwards, and the time `now` of the decision.
 *
 * `refuse_v1` stores the refusals and the ban of a caller that result from another rejected request, if the caller's row
 * still has the version `expected`. Otherwise it returns false, and the decision must be made again.
 *
 * `bans_v1` returns how many callers are banned.
 *
 * All times are in milliseconds since 1970. `at_ms` replaces the clock of the database in tests.
 */
export const TAKE_FUNCTIONS = `
-- The beginning of the window of \`length\` milliseconds in which a request at \`time\` is counted. \`stored\` is the window of
-- the last request. If the clock was set back by up to one window, requests are counted in that window until it ends.
-- Otherwise, they would be counted in an earlier window, and again from zero in the later one.
create function pets.window_v1(stored bigint, at bigint, length bigint) returns bigint
language sql immutable
as $$
  select case when stored > at and stored <= at + length then stored else at - at % length end;
$$;

create function pets.take_v1(
  callers bytea[],
  counts int[],
  per_minute bigint[],
  per_day bigint[],
  at_ms bigint default null
) returns table (
  n int,
  granted int,
  minute bigint,
  minute_used bigint,
  day bigint,
  day_used bigint,
  refused_window bigint,
  first_refused bigint,
  counted bigint[],
  banned_until bigint,
  version bigint,
  now bigint
)
language plpgsql
-- Plan once in each session, and for large tables, even if the table is still small.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- Also behind a pooler, the call must end before its client gives up.
set lock_timeout = '1400ms'
as $$
#variable_conflict use_column
declare
  time_now bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'pets.take_v1 needs the isolation level READ COMMITTED' using errcode = '0A000';
  end if;
  -- After a crash of the database, the last few requests may be missing in the counts. Requests that belong to a creation
  -- are not, because the commit of the creation also writes all earlier commits to the disk.
  perform set_config('synchronous_commit', 'off', true);

  -- Add and lock the rows in one order, so that two transactions never wait for each other. Rows are never removed. The
  -- limits make the planner look up each caller in the index, instead of reading all rows.
  if cardinality(callers) > (
    select count(*)
    from unnest(callers) as item (caller)
    cross join lateral (select from pets.callers c where c.caller = item.caller limit 1) known
  ) then
    insert into pets.callers (caller)
      select item.caller from unnest(callers) as item (caller) order by item.caller
      on conflict do nothing;
  end if;
  perform from (select u.caller from unnest(callers) as u (caller) order by u.caller) item
    cross join lateral (
      select from pets.callers c where c.caller = item.caller limit 1 for update
    ) locked;
  time_now := coalesce(at_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);

  -- The names of the columns of \`current\` that end in _now are of the windows at \`time_now\`.
  return query
    with current as (
      select item.n, item.count, item.per_minute, item.per_day, c.*,
        pets.window_v1(c.minute, time_now, 60000) as minute_now,
        pets.window_v1(c.day, time_now, 86400000) as day_now
      from unnest(callers, counts, per_minute, per_day) with ordinality
        as item (caller, count, per_minute, per_day, n)
      join pets.callers c on c.caller = item.caller
    ),
    used as (
      select *,
        case when minute_now = minute then minute_used else 0 end as minute_used_now,
        case when day_now = day then day_used else 0 end as day_used_now
      from current
    ),
    decided as (
      select *,
        case
          when banned_until > time_now then 0
          else greatest(0, least(count, per_minute - minute_used_now, per_day - day_used_now))
        end as granted
      from used
    )
    update pets.callers c
    set minute = minute_now, minute_used = minute_used_now + granted,
      day = day_now, day_used = day_used_now + granted
    from decided
    where c.caller = decided.caller
    returning n::int, granted::int, c.minute, c.minute_used, c.day, c.day_used,
      c.refused_window, c.first_refused, c.counted, c.banned_until, c.version, time_now;
end
$$;

create function pets.refuse_v1(
  caller bytea,
  expected bigint,
  refused_window bigint,
  first_refused bigint,
  counted bigint[],
  banned_until bigint
) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
-- Also behind a pooler, the call must end before its client gives up.
set lock_timeout = '1400ms'
as $$
begin
  -- A ban must be on the disk before the response that announces it.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  update pets.callers c
  set refused_window = refuse_v1.refused_window,
    first_refused = refuse_v1.first_refused,
    counted = refuse_v1.counted,
    banned_until = refuse_v1.banned_until,
    version = c.version + 1
  where c.caller = refuse_v1.caller and c.version = refuse_v1.expected;
  return found;
end
$$;

create function pets.bans_v1(at_ms bigint default null) returns bigint
language sql
as $$
  select count(*)
  from pets.callers
  where banned_until > coalesce(at_ms, floor(extract(epoch from statement_timestamp()) * 1000)::bigint);
$$;
`;
