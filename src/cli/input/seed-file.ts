import { readFile } from 'node:fs/promises';
import * as z from 'zod/mini';
import { INT64_MAX, int64 } from '../../contract/int64.ts';
import { parseJson } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { usageError } from '../errors/cli-error.ts';
import { FAULTS_SHOWN, MoreFaults } from './fault-list.ts';
import { explainNotText, refuseWorkbook, unreadable } from './file-errors.ts';
import type { RowFault, RowValue } from './read-row.ts';
import { describeFaults } from './row-faults.ts';
import type { RowFormat } from './row-formats.ts';
import { formatOfPath, readRows } from './rows.ts';
import { utf8Text } from './text.ts';

const SeedPet = z.object({ id: z.optional(int64), ...NewPet.shape }, { error: 'must be a JSON object' });
type SeedPet = z.infer<typeof SeedPet>;

/** A row of the file, and where it stands, as a fault is reported: `line 7`. */
type Row = { where: string } & (RowValue | RowFault);

/**
 * Reads animals, and in JSON orders too, from a file that people edit. Ids that stand in it are kept; rows without
 * one get the ids behind the largest.
 *
 * @throws CliError with every fault of the file by its line
 */
export async function readSeedFile(path: string): Promise<Seed> {
  refuseWorkbook(path);
  const format = formatOfPath(path);
  if (format === undefined) {
    throw usageError(`cannot tell the format of ${path}`, 'name it .json, .ndjson, .jsonl or .csv');
  }
  const bytes = await readFile(path).catch(async (error) => Promise.reject(await unreadable(path, error)));
  try {
    const document = format === 'json' ? await documentOf(bytes, path) : undefined;
    const { pets, orders } = document ?? { pets: rowsOf(bytes, format), orders: [] };
    return { pets: withIds(await checkRows(pets, path)), orders };
  } catch (error) {
    throw explainNotText(error, path, format);
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
  return { pets: pets.map((value, i): Row => ({ where: `animal ${i + 1}`, value, form: 'json' })), orders };
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
  const more = new MoreFaults();
  const ids = new Map<bigint, string>();
  const pets: SeedPet[] = [];
  for await (const row of rows) {
    const result = checkRow(row, ids);
    if ('pet' in result) pets.push(result.pet);
    else if (faults.length === FAULTS_SHOWN) more.add(result);
    else faults.push(`${path}, ${row.where}: ${result.fault}`);
  }
  if (faults.length === 0) return pets;
  const rest = more.describe() ?? [];
  throw usageError(faults.concat(rest).join('; '), 'mend these lines; nothing was added');
}

/** The animal of a row. `ids` are those of the rows before, with where they stand. */
function checkRow(row: Row, ids: Map<bigint, string>): { pet: SeedPet } | RowFault {
  if ('fault' in row) return row;
  const result = z.safeParse(SeedPet, row.value);
  if (!result.success) return describeFaults(result.error, row);
  const pet = result.data;
  if (pet.id === undefined) return { pet };
  const { id } = pet;
  const before = ids.get(id);
  ids.set(id, row.where);
  const bounds = `must be from 1 to ${INT64_MAX - 1n}`;
  if (id < 1n || id === INT64_MAX) return { fault: `id ${id} ${bounds}`, kind: `id ${bounds}` };
  if (before === undefined) return { pet };
  return { fault: `id ${id} stands at ${before} already`, kind: 'the id stands in an earlier line already' };
}

function withIds(pets: readonly SeedPet[]): Seed['pets'] {
  let next = pets.reduce((max, { id = 0n }) => (id > max ? id : max), 0n);
  return pets
    .map(({ id, status = 'available', ...pet }) => ({ ...pet, status, id: id ?? ++next }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
