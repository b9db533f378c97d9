-- The tables of the schema pets, and the check of a connection. After its start, a server calls only functions.
-- Each function has its own search_path, so that no function or operator of another schema replaces one of PostgreSQL.
-- All functions are VOLATILE, even those that only read: pgpool-II could send calls of STABLE ones to standby servers.

do $$
begin
  if current_setting('server_encoding') <> 'UTF8' then
    raise exception 'the database has the encoding %, which cannot store every name', current_setting('server_encoding')
      using hint = 'use another database, created with ENCODING ''UTF8'' TEMPLATE template0';
  end if;
end
$$;

-- The only row identifies the store. Every transaction that adds or removes animals locks the row.
create table pets.meta (
  one boolean primary key default true check (one),
  id uuid not null,
  -- A server knows one version of the schema, and refuses every other one.
  version int not null,
  -- Salts the fingerprints of idempotency keys.
  secret text not null check (secret ~ '^[0-9a-f]{64}$'),
  -- Ids up to `last_id` are not issued: the store from which this store was copied may have issued them.
  last_id bigint not null default 0,
  created timestamptz not null default now()
);
insert into pets.meta (id, version, secret)
values (
  gen_random_uuid(),
  6,
  encode(sha256(concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid())::bytea), 'hex')
);

-- `status`: 0 available, 1 pending, 2 sold. `body` is the JSON text of the animal, as responses contain it, byte for
-- byte. Its type is text, because a name can have \u0000 and, in a copied store, half of a surrogate pair (D14 refuses
-- that in requests). The type jsonb refuses both. The type json stores them, but then no field can be read, not even the id.
create table pets.animals (
  id bigint primary key,
  status smallint not null check (status in (0, 1, 2)),
  body text not null
);
-- With one index on (status, id), the planner could read all animals to find a few with a rare status.
create index animals_available on pets.animals (id) where status = 0;
create index animals_pending on pets.animals (id) where status = 1;
create index animals_sold on pets.animals (id) where status = 2;

create table pets.orders (
  position bigint primary key,
  body text not null
);

-- `fingerprint` identifies the API key and the idempotency key, `body` the animal in the first request.
create table pets.idempotency (
  fingerprint bytea primary key check (octet_length(fingerprint) = 16),
  body bytea not null check (octet_length(body) = 16),
  response text not null,
  at timestamptz not null
);
create index idempotency_at on pets.idempotency (at);

create table pets.keys (
  sha256 bytea primary key check (octet_length(sha256) = 32),
  name text not null unique,
  plan text not null,
  per_minute bigint,
  per_day bigint,
  created timestamptz not null default now(),
  check ((per_minute is null) = (per_day is null))
);

-- The counted requests and the ban of each API key, by the SHA-256 of the key. All times are in milliseconds since the
-- epoch. Most of each page stays free, so that an update finds space on the page and needs no change of the index.
create table pets.callers (
  caller bytea primary key check (octet_length(caller) = 32),
  -- The ends of the UTC minute and day of the last request, and the requests that were counted in them.
  minute_end bigint not null default 0,
  minute_used bigint not null default 0,
  day_end bigint not null default 0,
  day_used bigint not null default 0,
  -- The refused requests: the end of the window of the last one, the time of the first one of that window, and the times
  -- of those that count toward a ban.
  refused_window bigint not null default 0,
  first_refused bigint not null default 0,
  counted bigint[] not null default '{}',
  banned_until bigint not null default 0
) with (fillfactor = 20);

-- Raises an error if the database server is a standby server (which may lag), if the database does not contain this
-- store with this version of the schema, if a transaction that can write has another isolation level than READ
-- COMMITTED, or if the role may not read the keys. pets serve also calls it on each new connection.
create function pets.check_store(store uuid, known_version int) returns void
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
      using errcode = '0A000', hint = format('run: ALTER ROLE %I SET default_transaction_isolation = ''read committed''', current_user);
  end if;
  select id, version into found_id, found_version from pets.meta where one;
  if found_id is distinct from store then
    raise exception 'the database does not contain the store % any more; it contains %', store, coalesce(found_id::text, 'no store')
      using errcode = 'PETS1', hint = 'restore that store, or start the server again to use the other one';
  end if;
  if found_version is distinct from known_version then
    raise exception 'the schema pets belongs to another version of pets'
      using errcode = 'PETS1', hint = 'use the version of pets that created it';
  end if;
  perform from pets.keys limit 0;
end
$$;
