import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Context, Signal } from '../../src/cli/core/context.ts';
import { createProcessContext } from '../../src/cli/run.ts';
import { cannotListenError, runCommand } from '../../src/cli/serve/run-server.ts';
import { gate } from '../helpers/gate.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// These tests call the function that implements `pets serve -- <command>`, because tests of the built command would need
// delays or a terminal. More tests are in test/e2e/serve-command.test.ts.

/** Runs a Node.js program that executes `lines` and then does not exit by itself. */
async function run(lines: string, { isTTY = false, abort = new AbortController() } = {}) {
  const file = join(await temporaryDirectory(), 'ready');
  const listeners: [readonly Signal[], (signal: Signal) => void][] = [];
  const killDelay = gate();
  const sleeps: { milliseconds: number; signal: AbortSignal }[] = [];
  const context: Context = {
    ...createProcessContext(),
    stdin: Object.assign(Readable.from([]), { isTTY }),
    onSignal(signals, handler) {
      const listener: (typeof listeners)[number] = [signals, handler];
      listeners.push(listener);
      return () => listeners.splice(listeners.indexOf(listener), 1);
    },
    sleep(milliseconds, signal) {
      sleeps.push({ milliseconds, signal });
      return killDelay.opened;
    },
  };
  const script = `${lines}; setInterval(() => {}, 60_000); require('node:fs').writeFileSync(process.env.READY, '');`;
  const code = runCommand(context, [process.execPath, '-e', script], { READY: file }, abort.signal);
  // If the promise rejects before the test awaits it, that must not be an unhandled rejection.
  code.catch(() => {});
  return {
    code,
    sleeps,
    killDelay,
    abort: () => abort.abort(new Error('the disk is full')),
    listenersLeft: () => listeners.length,
    isReady: () => expect.poll(() => existsSync(file)).toBe(true),
    raise(signal: Signal) {
      for (const [signals, handler] of listeners) if (signals.includes(signal)) handler(signal);
    },
  };
}

test.each([
  ['EADDRINUSE', 'address already in use', 'stop the program that uses the port, or listen on any'],
  ['EACCES', 'permission denied', 'use a port above 1023, or any free port: --port 0'],
  ['EADDRNOTAVAIL', 'address not available', 'use an address of this machine, or omit --host'],
])('the hint after %s (%s): %s', async (code, reason, hint) => {
  const error = Object.assign(new Error(), { syscall: 'listen', code });
  expect(await cannotListenError('::1:80', error, { place: 'nowhere', isShared: false })).toMatchObject({
    code: 'cannot_listen',
    message: `cannot listen on ::1:80: ${reason}`,
    hint: expect.stringContaining(hint),
  });
});

describe('when aborted, runCommand', () => {
  test('sends SIGTERM and returns as soon as the command exits', async () => {
    const { code, sleeps, abort, isReady, listenersLeft } = await run(
      `process.on('SIGTERM', () => process.exit(4))`,
    );
    await isReady();
    abort();
    expect(await code).toBe(4);
    expect(sleeps.map(({ milliseconds, signal }) => [milliseconds, signal.aborted])).toEqual([[5_000, true]]);
    expect(listenersLeft()).toBe(0);
  });

  test('kills a command that does not exit in time', async () => {
    const { code, killDelay, abort, isReady } = await run(`process.on('SIGTERM', () => {})`);
    await isReady();
    abort();
    killDelay.open();
    expect(await code).toBe(137);
  });

  test('kills the command immediately if it then receives SIGTERM', async () => {
    const { code, abort, raise, isReady } = await run(`process.on('SIGTERM', () => {})`);
    await isReady();
    abort();
    raise('SIGTERM');
    expect(await code).toBe(137);
  });
});

test('on a terminal SIGINT is not forwarded, because the command receives it from the terminal', async () => {
  const { code, raise, isReady } = await run(
    `process.on('SIGINT', () => process.exit(5)); process.on('SIGTERM', () => process.exit(6))`,
    { isTTY: true },
  );
  await isReady();
  raise('SIGINT');
  raise('SIGTERM');
  expect(await code).toBe(6);
});
