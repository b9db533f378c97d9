import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { type Machine, PETS } from './pets.ts';

/** A command that runs in a pseudo-terminal. */
export type Terminal = {
  /** Waits until the command has written a text. Ignores output before the end of the previous match. */
  sees(text: string): Promise<void>;
  type(keys: string): void;
  signal(signal: NodeJS.Signals): void;
  /** The exit code. */
  ended(): Promise<number | null>;
  /** Everything that the command has written. */
  written(): string;
};

const COLUMNS = 80;
const ROWS = 24;

/** Runs the built command in a pseudo-terminal. */
export function onTerminal(
  machine: Machine,
  args: readonly string[],
  env: Record<string, string> = {},
): Terminal {
  const line = [process.execPath, PETS, ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn(
    'script',
    ['-qec', `stty cols ${COLUMNS} rows ${ROWS}; echo "pid $$."; exec ${line}`, '/dev/null'],
    {
      env: { ...machine.env, TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
      cwd: machine.home,
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  let hasClosed = false;
  const closed = once(child, 'close').finally(() => {
    hasClosed = true;
  });
  onTestFinished(() => end(child));
  let text = '';
  let seen = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  return {
    async sees(expected) {
      for (;;) {
        const at = text.indexOf(expected, seen);
        if (at >= 0) {
          seen = at + expected.length;
          return;
        }
        if (hasClosed) throw new Error(`${expected} was not shown, but ${text}`);
        await Promise.race([once(child.stdout, 'data'), closed]);
      }
    },
    type: (keys) => child.stdin.write(keys),
    signal(signal) {
      const [, pid] = /^pid (\d+)\./.exec(text) ?? [];
      process.kill(Number(pid), signal);
    },
    ended: async () => (await closed)[0],
    written: () => text,
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
