import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { onTestFailed, onTestFinished } from 'vitest';
import { type Machine, petsCommand } from './pets.ts';

export type TerminalSize = { cwd: string; env: Record<string, string>; columns: number; rows: number };

/** Starts a shell command in a pseudo-terminal. */
export function spawnInTerminal(
  line: string,
  { cwd, env, columns, rows }: TerminalSize,
): ChildProcessByStdio<Writable, Readable, null> {
  const sized = `stty cols ${columns} rows ${rows}; ${line}`;
  const child = spawn('script', ['--quiet', '--flush', '--return', '--command', sized, '/dev/null'], {
    cwd,
    env: { TERM: 'xterm-256color', LANG: 'C.UTF-8', SHELL: '/bin/sh', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => {});
  return child;
}

/** Starts the built command in a pseudo-terminal. See `openTerminal`. */
export function onTerminal(machine: Machine, args: readonly string[]) {
  const line = [...petsCommand, ...args].map((word) => `'${word}'`).join(' ');
  const terminal = openTerminal(machine, `echo "pid $$."; exec ${line}`);
  const signal = (name: NodeJS.Signals) => {
    const [, pid] = /^pid (\d+)\./.exec(terminal.output()) ?? [];
    process.kill(Number(pid), name);
  };
  return { ...terminal, signal };
}

/** Starts a line of sh in a pseudo-terminal, which is closed after the test. */
export function openTerminal({ home, env }: Pick<Machine, 'home' | 'env'>, line: string) {
  const child = spawnInTerminal(line, { cwd: home, env, columns: 80, rows: 24 });
  let hasClosed = false;
  const closed = once(child, 'close').finally(() => {
    hasClosed = true;
  });
  onTestFailed(() => void process.stderr.write(`the terminal has shown:\n${output}`));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  let output = '';
  let matchedUntil = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    output += chunk;
  });
  return {
    /**
     * Waits until the command has written a text after the text of the previous call, and returns what is between them.
     * Rejects if the command ends without writing the text.
     */
    async waitFor(expected: string): Promise<string> {
      while (!output.includes(expected, matchedUntil)) {
        if (hasClosed) throw new Error(`the terminal did not show ${JSON.stringify(expected)}`);
        await Promise.race([once(child.stdout, 'data'), closed]);
      }
      const start = matchedUntil;
      const end = output.indexOf(expected, start);
      matchedUntil = end + expected.length;
      return output.slice(start, end);
    },
    type: (keys: string) => child.stdin.write(keys),
    close: () => child.kill('SIGKILL'),
    exitCode: async (): Promise<number | null> => (await closed)[0],
    /** Everything that the terminal has shown so far. */
    output: () => output,
  };
}
