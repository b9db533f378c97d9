import { describe, expect, test } from 'vitest';
import type { StoreContents, StoreLocation } from '../../../src/store/backend.ts';
import { copyStore } from '../../../src/store/copy-store.ts';
import { writeDatabase } from '../../../src/store/postgres/contents.ts';
import { inTransaction } from '../../../src/store/postgres/database.ts';
import { copyFixture, many, stateOf } from '../../helpers/postgres/copy-fixture.ts';
import { createSchema } from '../../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, sharedCluster } from '../../helpers/postgres.ts';

describe.each([
  ['without a schema', false],
  ['with an empty schema', true],
])('a database %s is as before', (_, hasSchema) => {
  async function target() {
    const all = await copyFixture();
    const source = await all.directoryWith(many(2_500));
    const url = await freshDatabase();
    if (hasSchema) await createSchema(await connectTo(url));
    const before = await stateOf(url);
    const terminate = () =>
      sharedCluster().sql(
        'postgres',
        `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = '${new URL(url).pathname.slice(1)}' and state = 'idle in transaction'`,
      );
    return { ...all, source, url, before, terminate };
  }

  /** What happens to a copy at each of its steps. */
  const failures: [string, (at: { terminate(): Promise<unknown>; abort(): void }) => unknown, RegExp][] = [
    ['fails', () => Promise.reject(new Error('injected')), /injected/],
    ['is interrupted', ({ abort }) => abort(), /^interrupted$/],
    ['loses its connection', ({ terminate }) => terminate(), /terminat|connection/i],
  ];
  test.each(failures)('after each step at which a copy %s', async (_, fail, message) => {
    const { source, url, at, before, terminate } = await target();
    const steps = 8;
    let failing = 0;
    for (; ; failing++) {
      let step = 0;
      const interrupt = new AbortController();
      const abort = () => interrupt.abort(new Error('interrupted'));
      const next = async () => {
        if (step++ === failing) await fail({ terminate, abort });
      };
      const watched = (contents: StoreContents): StoreContents => ({
        ...contents,
        async *animals() {
          for await (const part of contents.animals()) {
            await next();
            yield part;
          }
          await next();
        },
      });
      const from: StoreLocation = {
        ...source,
        read: (task, signal) => source.read((contents) => task(watched(contents)), signal),
      };
      const real = at(url);
      const to: StoreLocation = {
        ...real,
        write: (contents, verify, signal) =>
          real.write(contents, (written) => verify(watched(written)), signal),
      };
      const copying = copyStore(from, to, { signal: interrupt.signal });
      if (failing === steps) {
        await copying;
        break;
      }
      await expect(copying, `step ${failing}`).rejects.toThrow(message);
      expect(await stateOf(url), `step ${failing}`).toEqual(before);
    }
    expect((await at(url).check()).animals).toBe(2_500);
  });

  test('if the comparison finds a difference', async () => {
    const { source, url, at, before } = await target();
    const real = at(url);
    const planted: StoreLocation = {
      ...real,
      write: (contents, verify) => real.write({ ...contents, nextId: contents.nextId + 1n }, verify),
    };
    await expect(copyStore(source, planted)).rejects.toThrow(/differs from .*: animals$/);
    expect(await stateOf(url)).toEqual(before);
  });

  test('until the commit', async () => {
    const { source, url, before } = await target();
    const client = await connectTo(url);
    await inTransaction(client, url, async () => {
      await source.read((contents) => writeDatabase(client, url, contents, async () => {}));
      expect(await stateOf(url)).toEqual(before);
    });
    expect(await stateOf(url)).not.toEqual(before);
  });

  test('if the transaction is lost at the commit', async () => {
    const { source, url, before, terminate } = await target();
    const client = await connectTo(url);
    const copying = inTransaction(client, url, async () => {
      await source.read((contents) => writeDatabase(client, url, contents, async () => {}));
      await terminate();
    });
    await expect(copying).rejects.toMatchObject({ outcome: 'unknown' });
    expect(await stateOf(url)).toEqual(before);
    const failed = await connectTo(url);
    const fail = () => failed.query('nonsense').catch(() => {});
    await expect(inTransaction(failed, url, fail)).rejects.toThrow('has rolled back the transaction');
  });
});
