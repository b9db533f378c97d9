import fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { startExpress } from '../helpers/express.ts';
import { freshMachine } from '../helpers/pets.ts';

// These tests run the command with services that were built with the libraries of other projects.

test.each([
  ['iso-8859-1', 'latin1'],
  ['utf-16le', 'utf16le'],
  ['utf-8', 'utf8'],
] as const)('an Express service may send names in %s', async (charset, encoding) => {
  const host = await startExpress((app) =>
    app.get('/v1/pets', (_, response) => {
      const text = JSON.stringify([{ id: 1, name: 'Fürst Pückler', categoryId: 1, status: 'sold' }]);
      response.type(`application/json; charset=${charset}`).send(Buffer.from(text, encoding));
    }),
  );
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: `http://${host}/v1`, key: 'pets_k' });
  expect(await machine.pets(['list', '--csv'])).toEqual({
    code: 0,
    stdout: 'id,name,categoryId,status\r\n1,Fürst Pückler,1,sold\r\n',
    stderr: '',
  });
});

test('a Fastify service may have ids as text and a status that is null', async () => {
  const app = fastify();
  onTestFinished(() => app.close());
  const pets: { id: string; status: string | null }[] = [];
  app.get('/v1/pets', () => pets);
  app.get<{ Params: { id: string } }>('/v1/pets/:id', (request) =>
    pets.find(({ id }) => id === request.params.id),
  );
  app.post('/v1/pets', async (request, response) => {
    pets.push({ id: String(pets.length + 1), status: null, ...(request.body as object) });
    return response.code(201).send(pets.at(-1));
  });
  const machine = await freshMachine();
  const baseUrl = `${await app.listen({ host: '127.0.0.1', port: 0 })}/v1`;
  await machine.saveProfile('prod', { baseUrl, key: 'pets_k' });
  const file = await machine.file('a.csv', 'name,category\nRex,1\nBella,2\n');
  expect((await machine.pets(['import', file])).code).toBe(0);
  const [rex, bella] = [
    { id: '1', status: null, name: 'Rex', categoryId: 1 },
    { id: '2', status: null, name: 'Bella', categoryId: 2 },
  ];
  const listed = await machine.pets(['list', '--json']);
  expect([listed.code, JSON.parse(listed.stdout)]).toEqual([0, [rex, bella]]);
  expect(listed.stderr.match(/do not match the specification/g)).toHaveLength(1);
  const got = await machine.pets(['get', '2', '--json']);
  expect([got.code, JSON.parse(got.stdout)]).toEqual([0, bella]);
});
