import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Context, Signal } from '../../src/cli/context.ts';
import { createProcessContext } from '../../src/cli/process-context.ts';
import { runCommand } from '../../src/cli/serve/run-command.ts';
import { gate } from '../helpers/gate.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// What cannot be had from the built command without waiting or a terminal; the rest is in e2e/stop.test.ts.

/** Runs a program that stays, and has these lines of JavaScript. */
async function run(lines: string, { isTTY = false, abort = new AbortController() } = {}) {
  const file = join(await temporaryDirectory(), 'ready');
  const listeners: [readonly Signal[], (signal: Signal) => void][] = [];
  const patience = gate();
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
      return patience.opened;
    },
  };
  const script = `${lines}; setInterval(() => {}, 60_000); require('node:fs').writeFileSync(process.env.READY, '');`;
  const code = runCommand(context, [process.execPath, '-e', script], { READY: file }, abort.signal);
  // It may be refused before anybody looks.
  code.catch(() => {});
  return {
    code,
    sleeps,
    patience,
    abort: () => abort.abort(new Error('the disk is full')),
    listenersLeft: () => listeners.length,
    isReady: () => expect.poll(() => existsSync(file), { interval: 10, timeout: 10_000 }).toBe(true),
    raise(signal: Signal) {
      for (const [signals, handler] of listeners) if (signals.includes(signal)) handler(signal);
    },
  };
}

describe('aborted', () => {
  test('it asks the command to end, and waits no longer than that takes', async () => {
    const { code, sleeps, abort, isReady, listenersLeft } = await run(
      `process.on('SIGTERM', () => process.exit(4))`,
    );
    await isReady();
    abort();
    expect(await code).toBe(4);
    expect(sleeps.map(({ milliseconds, signal }) => [milliseconds, signal.aborted])).toEqual([[5_000, true]]);
    expect(listenersLeft()).toBe(0);
  });

  test('it ends a command that does not, when its patience is at an end', async () => {
    const { code, patience, abort, isReady } = await run(`process.on('SIGTERM', () => {})`);
    await isReady();
    abort();
    patience.open();
    expect(await code).toBe(137);
  });

  test('it leaves a command that is ending already its time', async () => {
    const { code, abort, raise, isReady } = await run(
      `process.on('SIGTERM', () => setTimeout(() => process.exit(4), 100))`,
    );
    await isReady();
    raise('SIGTERM');
    abort();
    expect(await code).toBe(4);
  });

  test('SIGTERM then ends the command at once', async () => {
    const { code, abort, raise, isReady } = await run(`process.on('SIGTERM', () => {})`);
    await isReady();
    abort();
    raise('SIGTERM');
    expect(await code).toBe(137);
  });

  test('before it was started, it starts nothing', async () => {
    const { code, listenersLeft } = await run('', { abort: aborted() });
    await expect(code).rejects.toThrow('the disk is full');
    expect(listenersLeft()).toBe(0);
  });
});

test('on a terminal SIGINT is not passed on: the command has it already', async () => {
  const { code, raise, isReady } = await run(
    `process.on('SIGINT', () => process.exit(5)); process.on('SIGTERM', () => process.exit(6))`,
    { isTTY: true },
  );
  await isReady();
  raise('SIGINT');
  raise('SIGTERM');
  expect(await code).toBe(6);
});

function aborted(): AbortController {
  const abort = new AbortController();
  abort.abort(new Error('the disk is full'));
  return abort;
}
