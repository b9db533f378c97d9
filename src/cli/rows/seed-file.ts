import { createReadStream } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { INT64_MAX, int64 } from '../../contract/int64.ts';
import { parseJson } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { usageError } from '../core/errors.ts';
import { readInput, requireFormat, utf8Text } from './input-file.ts';
import { detectFormat, readRows } from './read-rows.ts';
import type { RowError, RowFormat, RowValue } from './row.ts';
import { checkRow, ID_BOUNDS, MAX_ROW_ERRORS_SHOWN, RowErrorSummary } from './row-errors.ts';

const SeedPet = z.object({ id: z.optional(int64), ...NewPet.shape }, { error: 'must be a JSON object' });
type SeedPet = z.infer<typeof SeedPet>;

const ROWS_PER_TURN = 500;

/** A row, and its position in the file for messages, such as `line 7`. */
type Row = { position: string } & (RowValue | RowError);

/**
 * Reads the animals of a seed file and, in JSON, its orders. Animals with an id keep it. Other animals get ids above
 * the largest id in the file.
 *
 * @throws CliError that lists the errors with their lines, or the reason of `signal`
 */
export async function readSeedFile(path: string, signal?: AbortSignal): Promise<Seed> {
  const format = requireFormat(path, 'use the extension .json, .ndjson, .jsonl or .csv');
  const text = utf8Text(await readInput(createReadStream(path), path), path, format);
  const isDocument = format === 'json' && detectFormat(text) !== 'json';
  const { rows, orders } = isDocument
    ? readDocument(text.toString(), path)
    : { rows: rowsOf(text, format), orders: [] };
  return { pets: assignIds(await checkRows(rows, path, signal)), orders };
}

/** Reads a JSON object of the form `{"pets": […], "orders": […]}`. */
function readDocument(text: string, path: string): { rows: Row[]; orders: unknown[] } {
  let document: unknown;
  try {
    document = parseJson(text);
  } catch (error) {
    throw usageError(`${path}: invalid JSON: ${(error as Error).message}`);
  }
  const { pets, orders = [] } = (document ?? {}) as Record<string, unknown>;
  if (!Array.isArray(pets) || !Array.isArray(orders)) {
    throw usageError(
      `${path} must be an array of animals, or an object with an array "pets" and optionally an array "orders"`,
    );
  }
  return { rows: pets.map((value, i) => ({ position: `animal ${i + 1}`, value, format: 'json' })), orders };
}

function* rowsOf(text: Buffer, format: RowFormat): Generator<Row> {
  let count = 0;
  for (const row of readRows(text, format)) {
    const animal = format === 'json' && 'value' in row ? `, animal ${++count}` : '';
    yield { ...row, position: `line ${row.line}${animal}` };
  }
}

async function checkRows(rows: Iterable<Row>, path: string, signal?: AbortSignal): Promise<SeedPet[]> {
  const errors: string[] = [];
  const more = new RowErrorSummary();
  const positions = new Map<bigint, string>();
  const pets: SeedPet[] = [];
  let read = 0;
  for (const row of rows) {
    // Wait for the next turn of the event loop, so that signals and requests are handled.
    if (read++ % ROWS_PER_TURN === 0) await setImmediate();
    signal?.throwIfAborted();
    const checked = checkRow(row, SeedPet);
    const result = 'pet' in checked ? checkId(checked.pet, row.position, positions) : checked;
    if ('pet' in result) pets.push(result.pet);
    else if (errors.length === MAX_ROW_ERRORS_SHOWN) more.add(result);
    else errors.push(`${path}, ${row.position}: ${result.error}`);
  }
  if (errors.length === 0) return pets;
  const rest = more.describe() ?? [];
  throw usageError(errors.concat(rest).join('; '), 'fix the errors above; nothing was added');
}

/** Checks that an id is valid and new, and adds the id to `positions`, which has the position of each earlier id. */
function checkId(
  pet: SeedPet,
  position: string,
  positions: Map<bigint, string>,
): { pet: SeedPet } | RowError {
  const { id } = pet;
  if (id === undefined) return { pet };
  const earlier = positions.get(id);
  positions.set(id, position);
  const bounds = `must be ${ID_BOUNDS}`;
  if (id < 1n || id === INT64_MAX) return { error: `id ${id} ${bounds}`, kind: `id ${bounds}` };
  if (earlier === undefined) return { pet };
  return { error: `id ${id} is already used at ${earlier}`, kind: 'id is already used by an earlier animal' };
}

function assignIds(pets: readonly SeedPet[]): Seed['pets'] {
  let last = pets.reduce((max, { id = 0n }) => (id > max ? id : max), 0n);
  return pets
    .map(({ id, status = 'available', ...pet }) => ({ ...pet, status, id: id ?? ++last }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
