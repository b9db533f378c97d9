/**
 * `page_v1` returns the first `max_count` animals from the id `first_id` on, as JSON texts separated by commas. `wanted` is
 * their status; null for all. `next` is the id of the last animal on the page; null if no more animals follow. A page
 * ends after 1 MiB.
 */
export const READ_FUNCTIONS = `
-- Each statement contains its status as a literal, because only then can it use the index for this status. The subqueries
-- read one animal more than the page has, to see whether more animals follow.
create function pets.page_v1(
  wanted smallint,
  first_id bigint,
  max_count int,
  out animals text,
  out next bigint
)
language plpgsql stable
-- Plan once in each session, and for many animals, even if there are still few.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
as $$
declare
  max_bytes constant int := 1048576;
  ids bigint[];
  bodies text[];
  length int;
  bytes int := 0;
begin
  if wanted is null then
    select array_agg(id), array_agg(body) into ids, bodies from (
      select id, body from pets.animals where id >= first_id order by id limit max_count + 1
    ) page;
  elsif wanted = 0 then
    select array_agg(id), array_agg(body) into ids, bodies from (
      select id, body from pets.animals where status = 0 and id >= first_id order by id limit max_count + 1
    ) page;
  elsif wanted = 1 then
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
    while bytes < max_bytes loop
      length := length + 1;
      bytes := bytes + octet_length(bodies[length]) + 1;
    end loop;
    animals := array_to_string(bodies[:length], ',');
  end if;
  if length < cardinality(ids) then
    next := ids[length];
  end if;
end
$$;

create function pets.get_v1(animal_id bigint) returns text
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
begin
  return (select body from pets.animals where id = animal_id);
end
$$;

create function pets.orders_v1() returns setof text
language sql stable
as $$
  select body from pets.orders order by position;
$$;

create function pets.size_v1() returns bigint
language sql stable
as $$
  select count(*) from pets.animals;
$$;
`;
