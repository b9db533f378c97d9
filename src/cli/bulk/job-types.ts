import type { Clock } from '../../contract/clock.ts';
import type { NewPet, Pet } from '../../contract/schemas.ts';
import type { Files } from '../../store/files.ts';

/** Where rows come from, as the user typed it. `path` is the real absolute path; standard input has none. */
export type BulkSource = { name: string; path: string | undefined };

/** Where spools and jobs are kept. */
export type BulkPlace = {
  /** Made, 0700, where it is missing. */
  directory: string;
  clock: Clock;
  random: (bytes: number) => Buffer;
  files?: Files;
};

export type BulkOptions = BulkPlace & {
  /** A job belongs to one service. */
  baseUrl: string;
  source: BulkSource;
  /** Forgets what earlier runs of this content have done. */
  restart: boolean;
  /** Of a file that was changed: takes rows that earlier runs of it have added as added. */
  skipAdded: boolean;
  /** The command that was typed, with `--skip-added`. */
  skipCommand: string;
};

/** An animal of the input; `line` is where it stands there, from 1. */
export type InputRow = { line: number; pet: NewPet };

/** How the adding of a row ended, as far as it is known. */
export type RowResult =
  | { status: 'added'; pet: Pet }
  | { status: 'failed'; error: { code: string; message: string; status?: number | undefined } }
  | { status: 'unknown'; idempotencyKey: string; message: string };

/** The send of a row whose result is not known: when the first was (ms since the epoch), and with which API key. */
export type Doubt = { sentAt: number; apiKeyHash: string };

/** A row that is to be tried. `row` counts the animals of the input from 1. */
export type PendingRow = InputRow & { row: number; idempotencyKey: string; doubt?: Doubt };

export type RowCounts = {
  added: number;
  failed: number;
  unknown: number;
  /** Never settled: never sent, or in doubt. */
  left: number;
};

/** Takes rows as they are checked, in constant memory. Nothing of a job exists before `openJob`. */
export interface Spool {
  /** @throws CliError where it cannot be written */
  write(row: InputRow): Promise<void>;
  /** Leaves nothing: the input had faults, or was only to be looked at. */
  discard(): Promise<void>;
}

/** The rows of one input for one service, and what became of each; this process alone has it until `close`. */
export interface Job {
  /** In all. */
  readonly rows: number;
  /** Of the first run, which may be this one. */
  readonly startedAt: Date;
  /** Undefined until every row has a result. */
  readonly finishedAt: Date | undefined;
  /** Whether an earlier run had begun. */
  readonly resumed: boolean;
  /** How many rows were taken over just now from runs of what the file held before. */
  readonly taken: number;
  counts(): RowCounts;
  /**
   * What this run is to try, in the input's order: rows never sent, rows in doubt, and rows that failed in an earlier
   * run. Rows may be sent and settled while it goes on.
   */
  pending(): AsyncGenerator<PendingRow>;
  /**
   * Call it before a row is sent; on the disk once it is done. A row in doubt keeps what its first send said.
   *
   * @throws CliError, and then the row must not be sent
   */
  sending(row: number, intent: { apiKeyHash: string }): Promise<void>;
  /** The row that was about to be sent was certainly not added: it is as if it had never been tried. */
  withdraw(row: number): Promise<void>;
  /** On the disk once it is done. @throws CliError, and then the row stays in doubt */
  settle(row: number, result: RowResult): Promise<void>;
  /** Call it once every row has a result: from then on the job is remembered 30 days. */
  finish(): Promise<void>;
  /** Every row in the input's order with its last result; undefined where it was never sent, or is in doubt. */
  results(): AsyncGenerator<InputRow & { row: number; result: RowResult | undefined }>;
  /** Lets others have the job. */
  close(): Promise<void>;
}
