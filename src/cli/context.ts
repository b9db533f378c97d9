import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../contract/clock.ts';

export type OutputStream = Writable & { isTTY?: boolean; columns?: number };
export type InputStream = Readable & { isTTY?: boolean };
export type Signal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** The slice of the process that the program uses; tests hand in their own. */
export type Context = {
  /** The arguments behind the program's name. */
  argv: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  stdin: InputStream;
  stdout: OutputStream;
  stderr: OutputStream;
  platform: NodeJS.Platform;
  homeDirectory: string;
  pid: number;
  /** Milliseconds since the epoch. */
  clock: Clock;
  /** Rejects with the signal's reason when it is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Uniform in [0, 1). */
  random(): number;
  /** Calls the handler for each of these signals until the returned function is called. */
  onSignal(signals: readonly Signal[], handler: (signal: Signal) => void): () => void;
  /** Ends the process where it stands; only for a second signal. */
  exitNow(code: number): void;
};
