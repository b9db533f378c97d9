import { createHash } from 'node:crypto';
import type { Job, PendingRow, RowResult } from '../../src/cli/bulk/job-types.ts';
import type { NewPet } from '../../src/contract/schemas.ts';

export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
export const HASH = sha256('key');

/** As many animals, in the order of the alphabet. */
export const animals = (count: number, first = 0): NewPet[] =>
  Array.from({ length: count }, (_, i) => ({ name: `Animal ${first + i + 1}`, categoryId: 2n ** 53n + 1n }));

export const added = (row: number): RowResult => ({
  status: 'added',
  pet: { id: BigInt(row) + 2n ** 60n, name: `Animal ${row}`, categoryId: 1n, status: 'available' },
});
export const failed = (message = 'no'): RowResult => ({
  status: 'failed',
  error: { code: 'invalid_request', message, status: 400 },
});

/** Sends every pending row up to `last`, and has it added. */
export async function addAll(job: Job, last = Number.POSITIVE_INFINITY): Promise<PendingRow[]> {
  const rows: PendingRow[] = [];
  for await (const pending of job.pending()) {
    if (pending.row > last) break;
    await job.sending(pending.row, { apiKeyHash: HASH });
    await job.settle(pending.row, added(pending.row));
    rows.push(pending);
  }
  return rows;
}
