import { readFile } from 'node:fs/promises';
import * as z from 'zod/mini';
import { INT64_MAX, int64 } from '../../contract/int64.ts';
import { parseJson } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { usageError } from '../errors/errors.ts';
import { describeNotText, refuseWorkbook, unreadableFile } from './file-errors.ts';
import type { RowFormat } from './formats.ts';
import { formatOfPath, readRows } from './read-rows.ts';
import type { RowError, RowValue } from './row.ts';
import { MAX_ROW_ERRORS_SHOWN, RowErrorSummary } from './row-error-reporter.ts';
import { describeInvalidRow } from './row-errors.ts';
import { utf8Text } from './utf8-text.ts';

const SeedPet = z.object({ id: z.optional(int64), ...NewPet.shape }, { error: 'must be a JSON object' });
type SeedPet = z.infer<typeof SeedPet>;

/** A row and its position in the file, as messages name it: `line 7`. */
type Row = { position: string } & (RowValue | RowError);

/**
 * Reads the animals of a seed file and, in JSON, its orders. Ids in the file are kept; other animals get ids above the
 * largest.
 *
 * @throws CliError that lists the errors with their lines
 */
export async function readSeedFile(path: string): Promise<Seed> {
  refuseWorkbook(path);
  const format = formatOfPath(path);
  if (format === undefined) {
    throw usageError(
      `cannot detect the format of ${path}`,
      'use the extension .json, .ndjson, .jsonl or .csv',
    );
  }
  const bytes = await readFile(path).catch(async (error) =>
    Promise.reject(await unreadableFile(path, error)),
  );
  try {
    const document = format === 'json' ? await readDocument(bytes, path) : undefined;
    const { pets, orders } = document ?? { pets: rowsOf(bytes, format), orders: [] };
    return { pets: assignIds(await validateRows(pets, path)), orders };
  } catch (error) {
    throw describeNotText(error, path, format);
  }
}

/** Reads `{"pets": […], "orders": […]}`. Returns undefined for an array, which is read row by row. */
async function readDocument(bytes: Uint8Array, path: string) {
  let text = '';
  for await (const piece of utf8Text(once(bytes))) text += piece;
  if (text.trimStart().startsWith('[')) return undefined;
  const { pets, orders = [] } = (parseDocument(text, path) ?? {}) as Record<string, unknown>;
  if (!Array.isArray(pets) || !Array.isArray(orders)) {
    throw usageError(`${path} must be an array of animals, or an object with the arrays "pets" and "orders"`);
  }
  return {
    pets: pets.map((value, i): Row => ({ position: `animal ${i + 1}`, value, format: 'json' })),
    orders,
  };
}

function parseDocument(text: string, path: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw usageError(`${path}: invalid JSON: ${(error as Error).message}`);
  }
}

async function* rowsOf(bytes: Uint8Array, format: RowFormat): AsyncGenerator<Row> {
  let count = 0;
  for await (const row of readRows(once(bytes), format)) {
    const animal = format === 'json' && 'value' in row ? `, animal ${++count}` : '';
    yield { ...row, position: `line ${row.line}${animal}` };
  }
}

async function* once(bytes: Uint8Array) {
  yield bytes;
}

async function validateRows(rows: Iterable<Row> | AsyncIterable<Row>, path: string): Promise<SeedPet[]> {
  const errors: string[] = [];
  const more = new RowErrorSummary();
  const positions = new Map<bigint, string>();
  const pets: SeedPet[] = [];
  for await (const row of rows) {
    const result = validateRow(row, positions);
    if ('pet' in result) pets.push(result.pet);
    else if (errors.length === MAX_ROW_ERRORS_SHOWN) more.add(result);
    else errors.push(`${path}, ${row.position}: ${result.error}`);
  }
  if (errors.length === 0) return pets;
  const rest = more.describe() ?? [];
  throw usageError(errors.concat(rest).join('; '), 'fix these lines; nothing was added');
}

/** @param positions of the ids in earlier rows; the id of this row is added */
function validateRow(row: Row, positions: Map<bigint, string>): { pet: SeedPet } | RowError {
  if ('error' in row) return row;
  const result = z.safeParse(SeedPet, row.value);
  if (!result.success) return describeInvalidRow(result.error, row);
  const pet = result.data;
  if (pet.id === undefined) return { pet };
  const { id } = pet;
  const earlier = positions.get(id);
  positions.set(id, row.position);
  const bounds = `must be from 1 to ${INT64_MAX - 1n}`;
  if (id < 1n || id === INT64_MAX) return { error: `id ${id} ${bounds}`, kind: `id ${bounds}` };
  if (earlier === undefined) return { pet };
  return { error: `id ${id} is already used at ${earlier}`, kind: 'id is already used in an earlier line' };
}

function assignIds(pets: readonly SeedPet[]): Seed['pets'] {
  let last = pets.reduce((max, { id = 0n }) => (id > max ? id : max), 0n);
  return pets
    .map(({ id, status = 'available', ...pet }) => ({ ...pet, status, id: id ?? ++last }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
