import { execFileSync } from 'node:child_process';
import { appendFileSync, readdirSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { listAllPets } from '../helpers/list-all-pets.ts';
import { freshMachine, type Machine, serveCommand } from '../helpers/pets.ts';
import { testWithMounts } from '../helpers/skip.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// test/store/failed-writes.test.ts has the other ways in which a disk refuses writes.

type Service = { url: string; key: string };

/** Adds an animal whose idempotency key is its name. Returns parts of the response. */
async function create({ url, key }: Service, name: string) {
  const response = await fetch(`${url}/pets`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': `"${name}"`,
    },
    body: JSON.stringify({ name: name.padEnd(300, '.'), categoryId: 1 }),
  });
  const { id, code } = (await response.json()) as { id?: number; code?: string };
  return { status: response.status, id, code, retryAfter: response.headers.get('Retry-After') };
}

const healthOf = ({ url }: Service): Promise<number[]> =>
  Promise.all(['/healthz', '/readyz'].map(async (path) => (await fetch(new URL(path, url))).status));

/** The names of the animals by id. */
async function listed(service: Service): Promise<Map<number, string>> {
  const pets = await listAllPets(service);
  return new Map(pets.map(({ id, name }) => [id, name.replace(/\.+$/, '')]));
}

const start = (machine: Machine, data: string) =>
  serveCommand(machine, ['--data', data, '--plan', 'enterprise', '--no-profile']);

testWithMounts(
  'a full disk stops creations, not reads, and nothing that was acknowledged is lost',
  async () => {
    const machine = await freshMachine();
    const disk = await mountSmallDisk();
    const data = join(disk.directory, 'store');
    let service = await start(machine, data);
    const added = new Map<number, string>();
    const refused = new Set<string>();
    const add = async (name: string) => {
      const { status, id = 0, ...rest } = await create(service, name);
      if (status === 201) added.set(id, name);
      else expect({ status, ...rest }).toEqual({ status: 503, code: 'storage_full', retryAfter: '5' });
      if (status === 201) refused.delete(name);
      else refused.add(name);
    };
    const addUntilFull = async (writer: string) => {
      for (let i = 0; refused.size < 100; i++) await add(`${writer}-${i}`);
    };
    disk.fill(300_000);
    await Promise.all(['a', 'b', 'c', 'd'].map(addUntilFull));
    expect(await healthOf(service)).toEqual([200, 503]);
    expect(await listed(service)).toEqual(added);

    disk.empty();
    await expect.poll(() => healthOf(service)).toEqual([200, 200]);
    // Refused creations can be repeated with the same idempotency keys.
    for (const name of refused) await add(name);
    expect(refused).toEqual(new Set());

    disk.fill();
    await Promise.all(['e', 'f', 'g', 'h'].map(addUntilFull));
    await service.end('SIGKILL');
    service = await start(machine, data);
    expect(await listed(service)).toEqual(added);
    const files = readdirSync(data).filter((name) => !/^(lock|claim)-/.test(name));
    expect(files.sort()).toEqual(['journal.ndjson', 'keys', 'store.txt']);
  },
);

testWithMounts('a store on a read-only file system is refused, and a copy of its files works', async () => {
  const machine = await freshMachine();
  const data = join(machine.home, 'store');
  const service = await start(machine, data);
  await create(service, 'one');
  await service.end('SIGTERM');
  const readOnly = await mountReadOnly(data);
  for (const args of [
    ['serve', '--port', '0', '--data', readOnly],
    ['store', 'copy', readOnly, join(machine.home, 'copy')],
  ]) {
    const { code, stderr } = await machine.command(args);
    expect([args, code]).toEqual([args, 1]);
    expect(stderr).toMatch(/cannot lock .*read-only file system.*\n.*copy the directory to a writable one/);
  }
  const copy = join(machine.home, 'copied');
  execFileSync('cp', ['-R', readOnly, copy]);
  expect(await listed(await start(machine, copy))).toEqual(new Map([[1, 'one']]));
});

/** Mounts an empty file system of 1 MiB. Returns its directory, and functions that fill it and make space again. */
async function mountSmallDisk() {
  const directory = await temporaryDirectory();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', directory]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', directory]));
  const filler = join(directory, 'filler');
  return {
    directory,
    /** Fills the file system, except about `free` bytes. */
    fill(free = 0): void {
      expect(() => appendFileSync(filler, Buffer.alloc(2 ** 20))).toThrow('ENOSPC');
      if (free > 0) execFileSync('truncate', ['--size', `-${free}`, filler]);
    },
    empty: () => rmSync(filler, { force: true }),
  };
}

/** Mounts a directory a second time, read-only, and returns the path. */
async function mountReadOnly(directory: string): Promise<string> {
  const copy = join(await temporaryDirectory(), 'read-only');
  await mkdir(copy);
  execFileSync('mount', ['--bind', directory, copy]);
  execFileSync('mount', ['-o', 'remount,bind,ro', copy]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', copy]));
  return copy;
}
