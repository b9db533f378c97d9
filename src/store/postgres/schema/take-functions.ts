/**
 * `take_v1` counts `counts[i]` requests of the API key with the SHA-256 `callers[i]`, or as many as its two quotas allow. A
 * count of 0 counts nothing. A caller must not occur twice. It returns a row for each caller: its number in the arrays from
 * 1, how many requests it counted, the caller's windows and refusals afterwards, and the time `now` of the decision.
 *
 * `usage_v1` returns the windows of callers, the ends of their last bans, and their versions. It changes and locks nothing. For a
 * caller that has made no requests, it returns the current windows with nothing used.
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
-- Plan once in each session, and for a large table, even if the table is still small.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
-- Also behind a pooler, the call must end before its client gives up.
set lock_timeout = '1400ms'
as $$
#variable_conflict use_column
declare
  id bytea;
  known pets.callers;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'pets.take_v1 needs the isolation level READ COMMITTED' using errcode = '0A000';
  end if;
  -- After a crash of the database, the last few requests may be missing in the counts. Requests that belong to a creation
  -- are not, because the commit of the creation also writes all earlier commits to the disk.
  perform set_config('synchronous_commit', 'off', true);

  -- Rows are locked in one order, so that two transactions never wait for each other. Rows are never removed.
  for n, id in
    select item.n, item.caller
    from unnest(callers) with ordinality as item (caller, n)
    order by item.caller
  loop
    select * into known from pets.callers c where c.caller = id for update;
    if not found then
      insert into pets.callers (caller) values (id) on conflict do nothing;
      select * into known from pets.callers c where c.caller = id for update;
    end if;

    now := coalesce(at_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
    minute := pets.window_v1(known.minute, now, 60000);
    minute_used := case when minute = known.minute then known.minute_used else 0 end;
    day := pets.window_v1(known.day, now, 86400000);
    day_used := case when day = known.day then known.day_used else 0 end;
    granted := case
      when known.banned_until > now then 0
      else greatest(0, least(counts[n], per_minute[n] - minute_used, per_day[n] - day_used))
    end;
    minute_used := minute_used + granted;
    day_used := day_used + granted;
    if granted > 0 then
      update pets.callers c
      set minute = take_v1.minute, minute_used = take_v1.minute_used,
        day = take_v1.day, day_used = take_v1.day_used
      where c.caller = id;
    end if;

    refused_window := known.refused_window;
    first_refused := known.first_refused;
    counted := known.counted;
    banned_until := known.banned_until;
    version := known.version;
    return next;
  end loop;
end
$$;

create function pets.usage_v1(
  callers bytea[],
  at_ms bigint default null
) returns table (
  n int,
  minute bigint,
  minute_used bigint,
  day bigint,
  day_used bigint,
  banned_until bigint,
  version bigint,
  now bigint
)
language sql stable
set enable_seqscan = off
as $$
  select
    item.n::int,
    span.minute,
    case when span.minute = c.minute then c.minute_used else 0 end,
    span.day,
    case when span.day = c.day then c.day_used else 0 end,
    coalesce(c.banned_until, 0),
    coalesce(c.version, 0),
    clock.now
  from unnest(callers) with ordinality as item (caller, n)
  left join pets.callers c on c.caller = item.caller
  cross join (
    select coalesce(at_ms, floor(extract(epoch from statement_timestamp()) * 1000)::bigint) as now
  ) clock
  cross join lateral (
    select
      pets.window_v1(coalesce(c.minute, 0), clock.now, 60000) as minute,
      pets.window_v1(coalesce(c.day, 0), clock.now, 86400000) as day
  ) span;
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
