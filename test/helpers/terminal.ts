import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { withDeadline } from './deadline.ts';
import { type Machine, petsCommand } from './pets.ts';
import { spawnInTerminal } from './pseudo-terminal.ts';

/** A command that runs in a pseudo-terminal. */
export type Terminal = {
  /**
   * Waits until the command has written a text after the text of the previous call. Rejects with the output so far if
   * the command ends without writing the text, or does not write it within 60 s.
   */
  waitFor(text: string): Promise<void>;
  type(keys: string): void;
  signal(signal: NodeJS.Signals): void;
  /** Waits until the command has ended. */
  exitCode(): Promise<number | null>;
  /** Everything that the terminal has shown so far. */
  output(): string;
};

/** Runs the built command in a pseudo-terminal. */
export function onTerminal({ home, env }: Machine, args: readonly string[]): Terminal {
  const line = [...petsCommand, ...args].map((word) => `'${word}'`).join(' ');
  const child = spawnInTerminal(`echo "pid $$."; exec ${line}`, { cwd: home, env, columns: 80, rows: 24 });
  let hasClosed = false;
  const closed = once(child, 'close').finally(() => {
    hasClosed = true;
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  let output = '';
  let matchedUntil = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    output += chunk;
  });
  const describe = (expected: string) =>
    `the terminal did not show ${JSON.stringify(expected)}, but:\n${output}`;
  const find = async (expected: string): Promise<void> => {
    while (!output.includes(expected, matchedUntil)) {
      if (hasClosed) throw new Error(describe(expected));
      await Promise.race([once(child.stdout, 'data'), closed]);
    }
    matchedUntil = output.indexOf(expected, matchedUntil) + expected.length;
  };
  return {
    waitFor: (expected) => withDeadline(find(expected), () => describe(expected)),
    type: (keys) => child.stdin.write(keys),
    signal(signal) {
      const [, pid] = /^pid (\d+)\./.exec(output) ?? [];
      process.kill(Number(pid), signal);
    },
    exitCode: async () => (await withDeadline(closed, () => describe('the end of the command')))[0],
    output: () => output,
  };
}
