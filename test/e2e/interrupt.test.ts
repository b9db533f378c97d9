import { once } from 'node:events';
import { expect, test } from 'vitest';
import { lastError } from '../helpers/failure.ts';
import { gate } from '../helpers/gate.ts';
import { EXECUTABLE, machineWithServer, outputOf } from '../helpers/pets.ts';
import { testIf } from '../helpers/skip.ts';

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s ends a command that waits for a response, as by SIGINT, so that a shell script with the command ends too',
  async (signal) => {
    const waiting = gate();
    const { machine } = await machineWithServer(waiting.open);
    const child = machine.startCommand(['list', '--json']);
    const output = outputOf(child);
    await waiting.opened;
    child.kill(signal);
    expect([await once(child, 'close'), output.stdout]).toEqual([[null, 'SIGINT'], '']);
    expect(lastError(output).code).toBe('interrupted');
  },
);

// This script is loaded before the entry. It sends SIGTERM when the entry has run, but has not loaded the program.
const TERMINATE = `process.once('newListener', (event) => {
  if (event === 'SIGTERM') process.nextTick(() => process.kill(process.pid, 'SIGTERM'));
});`;

// An executable ignores NODE_OPTIONS, so nothing can be loaded before its entry.
testIf(EXECUTABLE === undefined, 'an executable ignores NODE_OPTIONS').each([
  ['import -', 130],
  ['serve --port 0', 0],
  ['serve --ephemeral --port 0 -- node -e setInterval(Object,1e3)', 143],
])('SIGTERM while pets %s is loaded: exit code %i', async (line, expected) => {
  const { machine } = await machineWithServer(() => {});
  const env = { NODE_OPTIONS: `--require ${await machine.file('terminate.cjs', TERMINATE)}` };
  const child = machine.startCommand(line.split(' '), { env });
  const output = outputOf(child);
  const [code, signal] = await once(child, 'close');
  expect([code, signal], output.stderr).toEqual([expected, null]);
});
