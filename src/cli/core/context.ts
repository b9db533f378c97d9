import type { Readable, Writable } from 'node:stream';
import manifest from '../../../package.json' with { type: 'json' };
import type { SteadyClock, Uptime } from '../../system/clock.ts';

export const { version } = manifest;

export type OutputStream = Writable & {
  isTTY?: boolean;
  columns?: number;
  /** The handle of a terminal in Node. */
  _handle?: { setBlocking?(isBlocking: boolean): void };
};
type InputStream = Readable & { isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };
export type Signal = 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGQUIT' | 'SIGUSR2' | 'SIGBREAK';

/** Parts of the process and the system that the program gets as an argument, so that tests can replace them. */
export type Context = {
  /** The command-line arguments, without the program's name. */
  argv: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  stdin: InputStream;
  stdout: OutputStream;
  stderr: OutputStream;
  platform: NodeJS.Platform;
  homeDirectory: string;
  temporaryDirectory: string;
  pid: number;
  clock: SteadyClock;
  uptime(): Uptime;
  /** The name of the time zone in the variable TZ, or else of the system. Undefined if Node does not know it. Slow. */
  timeZone(): string | undefined;
  /** Whether the user's locale writes decimals with a comma. Slow. */
  hasDecimalComma(): boolean;
  /** Resolves after this time. If `signal` is aborted first, rejects with the reason of `signal`. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** A random number, uniform in [0, 1). */
  random(): number;
  /** Calls the handler whenever one of these signals arrives. Returns a function that removes the handler. */
  onSignal(signals: readonly Signal[], handler: (signal: Signal) => void): () => void;
  /** Exits the process immediately. Used only after a second signal, or if nothing reads the remaining output. */
  exitNow(code: number): void;
};

/** The arguments before `--`, which ends the options. */
export const wordsBeforeEnd = (argv: readonly string[]): readonly string[] =>
  argv.slice(0, [...argv, '--'].indexOf('--'));
