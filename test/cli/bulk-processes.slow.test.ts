import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { temporaryDirectory } from '../helpers/temp.ts';

const runner = fileURLToPath(new URL('../helpers/bulk-runner.ts', import.meta.url));

/** Starts a process that adds animals, and waits for its first event. */
async function start(directory: string, count: number, sent = '', mode = '') {
  const args = ['--import', 'tsx', runner, directory, String(count), sent, mode];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  const events: Record<string, unknown>[] = [];
  const lines = createInterface(child.stdout).on('line', (line) => events.push(JSON.parse(line)));
  await Promise.race([once(lines, 'line'), exited]);
  return { child, exited, events };
}

describe('of several processes', () => {
  it('one adds the file, the others are refused with its pid, and kill -9 releases the lock', async () => {
    const directory = join(await temporaryDirectory(), 'bulk');
    const all = await Promise.all(Array.from({ length: 4 }, () => start(directory, 5, '', 'hold')));
    const [holder, ...more] = all.filter(({ events }) => events[0]?.['isOpen']);
    expect(more).toEqual([]);
    for (const { child, events } of all) {
      if (child === holder?.child) continue;
      const message = `animals.csv is already being added by process ${holder?.child.pid}`;
      expect(events[0]).toEqual({ isOpen: false, code: 'already_running', message });
    }
    holder?.child.kill('SIGKILL');
    await holder?.exited;
    expect((await start(directory, 5, '', 'hold')).events).toMatchObject([{ isOpen: true, isResumed: true }]);
  }, 120_000);

  it('each resumes what kill -9 has interrupted, and sends no row twice with another key', async () => {
    const directory = await temporaryDirectory();
    const sent = join(directory, 'sent');
    const [count, kills] = [400, 4];
    await writeFile(sent, '');
    for (let run = 0; run <= kills; run++) {
      const { size } = await stat(sent);
      const { child, exited, events } = await start(join(directory, 'bulk'), count, sent);
      expect(events[0]).toMatchObject({ isOpen: true, isResumed: run > 0 });
      // Kill the process somewhere in the middle of its rows.
      while (child.exitCode === null && run < kills && (await stat(sent)).size < size + 2_500) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      if (run < kills) child.kill('SIGKILL');
      await exited;
      expect(events.some((event) => event['isFinished'])).toBe(run === kills);
    }
    const keys = new Map<string, string>();
    const settled = new Set<string>();
    for (const line of (await readFile(sent, 'utf8')).trimEnd().split('\n')) {
      const [row = '', what = ''] = line.split(' ');
      if (what === 'settled') settled.add(row);
      else {
        expect(settled, `row ${row} was sent again`).not.toContain(row);
        expect(keys.get(row) ?? what).toBe(what);
        keys.set(row, what);
      }
    }
    expect(keys.size).toBe(count);
    expect(new Set(keys.values()).size).toBe(count);
  }, 120_000);
});
