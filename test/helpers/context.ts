import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import type { Context, OutputStream, Signal } from '../../src/cli/core/context.ts';
import { main } from '../../src/cli/main.ts';
import { createProcessContext } from '../../src/cli/run.ts';
import { type ManualClock, manualClock, uptimeOf } from './clock.ts';
import { temporaryDirectory } from './temp.ts';

export type Program = ReturnType<typeof startProgram>;

export type StartOptions = Partial<Omit<Context, 'stdin'>> & {
  /** The content of a pipe on standard input. */
  stdin?: string;
  /** The lines that the user types at a terminal, which replaces the pipe. */
  typed?: readonly string[] | undefined;
  /** The width of the terminal; undefined if stdout and stderr are pipes. */
  columns?: number | undefined;
};

/** Calls `main()` in this process, by default with the real clock and timers. */
export function startProgram(
  argv: readonly string[],
  { stdin = '', typed, columns, ...context }: StartOptions,
) {
  const handlers = new Set<(signal: Signal) => void>();
  const [stdout, stderr] = [collector(columns), collector(columns)];
  const ended = main({
    ...createProcessContext(),
    argv,
    env: {},
    timeZone: () => 'UTC',
    stdin: typed ? keyboard(typed) : pipe(stdin),
    stdout: stdout.stream,
    stderr: stderr.stream,
    onSignal(_signals, handler) {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
    exitNow(code) {
      throw new Error(`exit ${code}`);
    },
    ...context,
  });
  return {
    /** Resolves with the exit code. */
    ended,
    /** `stdout` and `stderr` return what the program has written to these streams so far. */
    stdout: stdout.text,
    stderr: stderr.text,
    /** The first line on stdout. Rejects if the program ends without writing one. */
    firstLine: (): Promise<string> =>
      Promise.race([
        stdout.firstLine,
        ended.then((code) => Promise.reject(new Error(`exit code ${code}: ${stderr.text()}`))),
      ]),
    raise(signal: Signal): void {
      for (const handler of handlers) handler(signal);
    },
    /** The number of signal handlers that the program has not removed. */
    handlersLeft: () => handlers.size,
  };
}

const pipe = (text: string) =>
  Object.assign(Readable.from(text === '' ? [] : [Buffer.from(text)]), { isTTY: false });

/** A terminal at which each line is typed as soon as the program reads. The terminal stays open after the last line. */
function keyboard(lines: readonly string[]) {
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} });
  for (const line of lines) stdin.write(`${line}\r`);
  return stdin;
}

function collector(columns: number | undefined) {
  let text = '';
  let onLine = (_line: string) => {};
  const firstLine = new Promise<string>((resolve) => {
    onLine = resolve;
  });
  const stream: OutputStream = new Writable({
    write(chunk, _encoding, done) {
      // The conversion to bytes replaces a lone surrogate with U+FFFD, as on a real stream.
      text += Buffer.from(chunk).toString();
      if (text.includes('\n')) onLine(text.slice(0, text.indexOf('\n')));
      done();
    },
  });
  if (columns !== undefined) Object.assign(stream, { isTTY: true, columns });
  return { stream, text: () => text, firstLine };
}

export type TerminalOptions = Pick<StartOptions, 'columns' | 'typed' | 'stdin' | 'temporaryDirectory'> & {
  /** The user's time zone, which is UTC by default. */
  timeZone?: string;
  env?: Record<string, string>;
  /** The content of files that are created in the configuration directory, by name. */
  files?: Record<string, string>;
  /** The clock, for example of an earlier run. By default, it starts at 12:00 on 20 November 2026. */
  clock?: ManualClock;
  /** Called instead of waiting. `raise` sends a signal to the program. */
  onSleep?: (milliseconds: number, raise: (signal: Signal) => void) => void;
};

/** Runs `main()` to its end in a new home directory. Waits take no time, and only advance the manual clock. */
export async function runInTerminal(argv: readonly string[], options?: TerminalOptions) {
  const { ended, stdout, stderr, handlersLeft } = await startInTerminal(argv, options);
  const code = await ended;
  return { code, stdout: stdout(), stderr: stderr(), handlersLeft: handlersLeft() };
}

/** Like `runInTerminal`, but returns the running program, for example to send signals to it. */
export async function startInTerminal(argv: readonly string[], options: TerminalOptions = {}) {
  const { timeZone = 'UTC', env, files = {}, clock = manualClock(), onSleep, stdin = '' } = options;
  const home = await temporaryDirectory();
  await Promise.all(Object.entries(files).map(([name, text]) => writeFile(join(home, name), text)));
  const program = startProgram(argv, {
    timeZone: () => timeZone,
    env: { PETS_CONFIG_DIR: home, ...env },
    platform: 'linux',
    homeDirectory: home,
    temporaryDirectory: options.temporaryDirectory ?? home,
    pid: 1,
    clock,
    uptime: uptimeOf(clock),
    async sleep(milliseconds, signal) {
      onSleep?.(milliseconds, program.raise);
      signal.throwIfAborted();
      clock.advance(milliseconds);
    },
    random: () => 0,
    stdin,
    typed: options.typed,
    columns: options.columns,
  });
  return { ...program, clock, home };
}
