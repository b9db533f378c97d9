import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import type { Context, OutputStream, Signal } from '../../src/cli/context.ts';
import { main } from '../../src/cli/main.ts';
import { manualClock } from './clock.ts';
import { temporaryDirectory } from './temp.ts';

export type TerminalOptions = {
  /** The width of the terminal; undefined where stdout and stderr are pipes. */
  columns?: number;
  env?: Record<string, string>;
  /** What stands in the configuration directory. */
  files?: Record<string, string>;
  /** Called instead of a wait. */
  onSleep?: (milliseconds: number, raise: (signal: Signal) => void) => void;
};

/** Runs the program in this process, on streams, a clock and a home directory of its own. */
export async function runInTerminal(argv: readonly string[], options?: TerminalOptions) {
  const { ended, stdout, stderr, handlersLeft } = await startInTerminal(argv, options);
  const code = await ended;
  return { code, stdout: stdout(), stderr: stderr(), handlersLeft: handlersLeft() };
}

/** The same for a program that runs until it is told to end. */
export async function startInTerminal(
  argv: readonly string[],
  { columns, env = {}, files = {}, onSleep }: TerminalOptions = {},
) {
  const clock = manualClock();
  const home = await temporaryDirectory();
  await Promise.all(Object.entries(files).map(([name, text]) => writeFile(join(home, name), text)));
  const handlers = new Set<(signal: Signal) => void>();
  const raise = (signal: Signal) => {
    for (const handler of handlers) handler(signal);
  };
  const [stdout, stderr] = [output(columns), output(columns)];
  const context: Context = {
    argv,
    env: { PETS_CONFIG_DIR: home, ...env },
    stdin: Object.assign(Readable.from([]), { isTTY: false }),
    stdout: stdout.stream,
    stderr: stderr.stream,
    platform: 'linux',
    homeDirectory: home,
    pid: 1,
    clock,
    async sleep(milliseconds, signal) {
      onSleep?.(milliseconds, raise);
      signal.throwIfAborted();
      clock.advance(milliseconds);
    },
    random: () => 0,
    onSignal(_signals, handler) {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
    exitNow(code) {
      throw new Error(`exit ${code}`);
    },
  };
  return {
    /** The exit code. */
    ended: main(context),
    clock,
    home,
    raise,
    stdout: stdout.text,
    stderr: stderr.text,
    handlersLeft: () => handlers.size,
  };
}

function output(columns: number | undefined) {
  const stream: OutputStream = new PassThrough();
  let text = '';
  stream.on('data', (chunk) => {
    text += chunk;
  });
  if (columns !== undefined) Object.assign(stream, { isTTY: true, columns });
  return { stream, text: () => text };
}
