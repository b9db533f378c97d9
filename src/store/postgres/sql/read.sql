-- Reads pages of animals. `wanted` contains the status of each page (null: all animals), `first_ids` its lowest
-- possible id, and `max_counts` how many animals it has at most. Returns a row for each page: its number in the arrays
-- from 1, the JSON texts of its animals separated by commas, and the id of its last animal as `next_id`, or null if no
-- more animals follow. A page ends after 1 MiB.
create function pets.read_pages(
  store uuid,
  known int,
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
  perform pets.check_store(store, known);

  for i in 1 .. cardinality(first_ids) loop
    n := i;
    first_id := first_ids[i];
    max_count := max_counts[i];
    -- Each statement contains its status as a literal, because only then can it use the index for this status. The
    -- subqueries read one animal more than the page has, to see whether more animals follow.
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
