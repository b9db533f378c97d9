import { readdir } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { copyStore } from '../../../src/store/copy-store.ts';
import { copyFixture, many, stateOf } from '../../helpers/postgres/copy-fixture.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';

describe('a check of a database and copies of it fail with the same error, and nothing is copied', () => {
  const ANIMAL = /^\S+ is damaged: a row of pets.animals \(id 3\) is not valid$/;
  const setBody = (body: string) => `update pets.animals set body = '${body}' where id = 3`;
  test.each<[string, string, RegExp]>([
    ['an animal that is not JSON', setBody('{oops'), ANIMAL],
    [
      'an animal with another id in its JSON',
      setBody('{"id":4,"name":"Rex","categoryId":1,"status":"available"}'),
      ANIMAL,
    ],
    ['an animal with another status', 'update pets.animals set status = 1 where id = 3', ANIMAL],
    ['an animal without a name', setBody('{"id":3,"categoryId":1,"status":"available"}'), ANIMAL],
    [
      'an animal after the first batch',
      `update pets.animals set body = '{' where id = 2500`,
      /pets.animals \(id 2500\)/,
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
    const [source, target] = [await freshDatabase(), await freshDatabase()];
    await copyStore(await directoryWith(many(2_500)), at(source));
    await (await connectTo(source)).query(sql);
    const attempts = [
      at(source).check(),
      copyStore(at(source), at(target)),
      copyStore(at(source), inDirectory('copy')),
    ];
    const [checked, ...copies] = await Promise.all(
      attempts.map((attempt) => attempt.catch((error: unknown) => error)),
    );
    expect(checked).toMatchObject({ name: 'StoreDamagedError', message: expect.stringMatching(message) });
    expect(copies).toEqual([checked, checked]);
    expect(await stateOf(target)).toBeUndefined();
    expect(await readdir(home)).toEqual(['store']);
  });

  test('because the table of the API keys is missing', async () => {
    const { at, directoryWith } = await copyFixture();
    const url = await freshDatabase();
    await copyStore(await directoryWith(many(3)), at(url));
    await (await connectTo(url)).query('drop table pets.keys');
    await expect(at(url).check()).rejects.toThrow('relation "pets.keys" does not exist');
  });

  test('because it contains no store', async () => {
    const { at, inDirectory } = await copyFixture();
    const url = await freshDatabase();
    await expect(at(url).check()).rejects.toThrow(`there is no store in ${url}`);
    await expect(copyStore(at(url), inDirectory('copy'))).rejects.toThrow(`there is no store in ${url}`);
    expect(await stateOf(url)).toBeUndefined();
  });
});
