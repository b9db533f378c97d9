import { readFile } from 'node:fs/promises';
import * as z from 'zod/mini';
import { INT64_MAX, int64 } from '../../contract/int64.ts';
import { describeIssues } from '../../contract/issues.ts';
import { parseJson } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { fileError, usageError } from '../errors/cli-error.ts';
import type { RowFormat } from './row-formats.ts';
import { formatOfPath, NotUtf8Error, readRows } from './rows.ts';
import { utf8Text } from './text.ts';

const SeedPet = z.object({ id: z.optional(int64), ...NewPet.shape }, { error: 'must be a JSON object' });
type SeedPet = z.infer<typeof SeedPet>;

/** A row of the file, and where it stands, as a fault is reported: `line 7`. */
type Row = { where: string } & ({ value: unknown } | { fault: string });

const FAULTS_SHOWN = 20;

/**
 * Reads animals, and in JSON orders too, from a file that people edit. Ids that stand in it are kept; rows without
 * one get the ids behind the largest.
 *
 * @throws CliError with every fault of the file by its line
 */
export async function readSeedFile(path: string): Promise<Seed> {
  const format = formatOfPath(path);
  if (format === undefined) {
    throw usageError(`cannot tell the format of ${path}`, 'name it .json, .ndjson, .jsonl or .csv');
  }
  const bytes = await readFile(path).catch((error) => Promise.reject(fileError('read', path, error)));
  try {
    const document = format === 'json' ? await documentOf(bytes, path) : undefined;
    const { pets, orders } = document ?? { pets: rowsOf(bytes, format), orders: [] };
    return { pets: withIds(await checkRows(pets, path)), orders };
  } catch (error) {
    if (error instanceof NotUtf8Error) throw usageError(`${path} is not UTF-8 text`, 'save it as UTF-8');
    throw error;
  }
}

/** `{"pets": […], "orders": […]}`; undefined for an array, whose rows are read as those of the other formats. */
async function documentOf(bytes: Uint8Array, path: string) {
  let text = '';
  for await (const piece of utf8Text(once(bytes))) text += piece;
  if (text.trimStart().startsWith('[')) return undefined;
  const { pets, orders = [] } = (parsed(text, path) ?? {}) as Record<string, unknown>;
  if (!Array.isArray(pets) || !Array.isArray(orders)) {
    throw usageError(`${path} must hold an array of animals, or an object with arrays "pets" and "orders"`);
  }
  return { pets: pets.map((value, i): Row => ({ where: `animal ${i + 1}`, value })), orders };
}

function parsed(text: string, path: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw usageError(`${path} is not JSON: ${(error as Error).message}`);
  }
}

async function* rowsOf(bytes: Uint8Array, format: RowFormat): AsyncGenerator<Row> {
  let animals = 0;
  for await (const row of readRows(once(bytes), format)) {
    const animal = format === 'json' && 'value' in row ? `, animal ${++animals}` : '';
    yield { ...row, where: `line ${row.line}${animal}` };
  }
}

async function* once(bytes: Uint8Array) {
  yield bytes;
}

async function checkRows(rows: Iterable<Row> | AsyncIterable<Row>, path: string): Promise<SeedPet[]> {
  const faults: string[] = [];
  const ids = new Map<bigint, string>();
  const pets: SeedPet[] = [];
  for await (const { where, ...row } of rows) {
    if ('fault' in row) {
      faults.push(`${path}, ${where}: ${row.fault}`);
      continue;
    }
    const result = z.safeParse(SeedPet, row.value);
    if (!result.success) {
      faults.push(`${path}, ${where}: ${describeIssues(result.error)}`);
      continue;
    }
    const { id } = result.data;
    if (id !== undefined && (id < 1n || id === INT64_MAX))
      faults.push(`${path}, ${where}: id must be from 1 to ${INT64_MAX - 1n}`);
    else if (id !== undefined && ids.has(id))
      faults.push(`${path}, ${where}: id ${id} stands at ${ids.get(id)} already`);
    if (id !== undefined) ids.set(id, where);
    pets.push(result.data);
  }
  if (faults.length > 0) throw usageError(summary(faults), 'mend these lines; nothing was added');
  return pets;
}

function summary(faults: readonly string[]): string {
  const more = faults.length - FAULTS_SHOWN;
  const shown = faults.slice(0, FAULTS_SHOWN).join('; ');
  return more > 0 ? `${shown}; and ${more} more faults` : shown;
}

function withIds(pets: readonly SeedPet[]): Seed['pets'] {
  let next = pets.reduce((max, { id = 0n }) => (id > max ? id : max), 0n);
  return pets
    .map(({ id, status = 'available', ...pet }) => ({ ...pet, status, id: id ?? ++next }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
