import type { Clock } from '../../contract/clock.ts';
import type { Files } from '../../store/files.ts';
import type { Lock } from '../../store/lock.ts';
import type { InputRow, Job, PendingRow, RowCounts, RowResult } from './job-types.ts';
import type { Progress } from './progress-file.ts';
import { type Entry, idempotencyKeyOf } from './progress-format.ts';
import { type RowState, rowStates, stateAfter } from './row-states.ts';
import { readRows } from './spool.ts';

/** What a job is made of; `rows` is the path of its rows. */
export type JobParts = {
  files: Files;
  rows: string;
  progress: Progress;
  lock: Lock;
  clock: Clock;
  resumed: boolean;
  taken: number;
};

/** A job that this process has. */
export class OpenJob implements Job {
  readonly rows: number;
  readonly startedAt: Date;
  readonly resumed: boolean;
  readonly taken: number;
  #parts: JobParts;
  #finishedAt: Date | undefined;

  constructor(parts: JobParts) {
    const { header, finishedAt } = parts.progress;
    this.rows = header.rows;
    this.startedAt = new Date(header.startedAt);
    this.resumed = parts.resumed;
    this.taken = parts.taken;
    this.#parts = parts;
    this.#finishedAt = finishedAt === undefined ? undefined : new Date(finishedAt);
  }

  get finishedAt(): Date | undefined {
    return this.#finishedAt;
  }

  counts(): RowCounts {
    return this.#parts.progress.states.counts();
  }

  async *pending(): AsyncGenerator<PendingRow> {
    const { files, rows, progress } = this.#parts;
    const { file, states } = progress;
    const read = file.reader();
    const isPending = (row: number) => PENDING.has(states.state(row));
    for await (const input of readRows(files, rows, this.rows, isPending)) {
      const state = states.state(input.row);
      if (state !== rowStates.doubt) {
        yield { ...input, idempotencyKey: this.#keyOf(input.row) };
      } else {
        const sent = await read(states.offset(input.row));
        if (sent.status !== 'sending') continue;
        const { idempotencyKey, apiKeyHash, sentAt } = sent;
        yield { ...input, idempotencyKey, doubt: { sentAt: Date.parse(sentAt), apiKeyHash } };
      }
    }
  }

  async sending(row: number, { apiKeyHash }: { apiKeyHash: string }): Promise<void> {
    const { progress, clock } = this.#parts;
    if (progress.states.state(row) === rowStates.doubt) return progress.file.expectThere();
    const sentAt = new Date(clock.now()).toISOString();
    const idempotencyKey = this.#keyOf(row);
    await this.#record(row, { row, status: 'sending', idempotencyKey, apiKeyHash, sentAt });
  }

  withdraw(row: number): Promise<void> {
    return this.#record(row, { row, status: 'withdrawn' });
  }

  settle(row: number, result: RowResult): Promise<void> {
    return this.#record(row, { row, ...result });
  }

  async finish(): Promise<void> {
    if (this.#finishedAt) return;
    const at = new Date(this.#parts.clock.now());
    await this.#parts.progress.file.append({ status: 'finished', at: at.toISOString() });
    this.#finishedAt = at;
  }

  async *results(): AsyncGenerator<InputRow & { row: number; result: RowResult | undefined }> {
    const { files, rows, progress } = this.#parts;
    const { file, states } = progress;
    const read = file.reader();
    for await (const input of readRows(files, rows, this.rows)) {
      const state = states.state(input.row);
      const isOpen = state === rowStates.fresh || state === rowStates.doubt;
      yield { ...input, result: isOpen ? undefined : resultOf(await read(states.offset(input.row))) };
    }
  }

  async close(): Promise<void> {
    try {
      await this.#parts.progress.file.close();
    } finally {
      await this.#parts.lock.release();
    }
  }

  async #record(row: number, entry: Exclude<Entry, { status: 'finished' }>): Promise<void> {
    const { file, states } = this.#parts.progress;
    const offset = await file.append(entry);
    // What fails now is not tried again by this run.
    const state = entry.status === 'failed' ? rowStates.failedNow : stateAfter[entry.status];
    states.set(row, state, offset);
    this.#finishedAt = undefined;
  }

  #keyOf(row: number): string {
    const { header, states } = this.#parts.progress;
    return idempotencyKeyOf(header.nonce, row, states.failures(row));
  }
}

const PENDING: ReadonlySet<RowState> = new Set([rowStates.fresh, rowStates.failed, rowStates.doubt]);

function resultOf(entry: Entry): RowResult | undefined {
  switch (entry.status) {
    case 'added':
      return { status: 'added', pet: entry.pet };
    case 'failed':
      return { status: 'failed', error: entry.error };
    case 'unknown':
      return { status: 'unknown', idempotencyKey: entry.idempotencyKey, message: entry.message };
    default:
      return undefined;
  }
}
