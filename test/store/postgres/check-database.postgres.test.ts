import { readdir } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { copyStore } from '../../../src/store/copy-store.ts';
import { copyFixture, many, stateOf } from '../../helpers/postgres/copy-fixture.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';

describe('a check of a database fails', () => {
  test.each<[string, string, RegExp]>([
    [
      'an animal that is not JSON',
      `update pets.animals set body = '{' where id = 2`,
      /pets.animals \(id 2\)/,
    ],
    [
      'an animal with another status',
      'update pets.animals set status = 1 where id = 3',
      /pets.animals \(id 3\)/,
    ],
    ['an order that is not JSON', `update pets.orders set body = '{'`, /pets.orders \(order 1\)/],
    ['a key that is not valid', `update pets.keys set plan = 'x'`, /pets.keys/],
    [
      'the response of an idempotency key that is not an animal',
      `insert into pets.idempotency values (decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'), '{"id":9', now() + interval '10 years')`,
      /pets.idempotency/,
    ],
  ])('because of %s', async (_, sql, message) => {
    const { home, at, directoryWith, inDirectory } = await copyFixture();
    const url = await freshDatabase();
    await copyStore(await directoryWith(many(3)), at(url));
    await (await connectTo(url)).query(sql);
    await expect(at(url).check()).rejects.toThrow(message);
    if (sql.includes('idempotency')) {
      await expect(copyStore(at(url), inDirectory('copy'))).rejects.toThrow(message);
      expect(await readdir(home)).toEqual(['store']);
    }
  });

  test('because it contains no store', async () => {
    const { at, inDirectory } = await copyFixture();
    const url = await freshDatabase();
    await expect(at(url).check()).rejects.toThrow('the database contains no store');
    await expect(copyStore(at(url), inDirectory('copy'))).rejects.toThrow('the database contains no store');
    expect(await stateOf(url)).toBeUndefined();
  });
});
