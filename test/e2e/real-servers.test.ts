import { expect, test } from 'vitest';
import { startExpress } from '../helpers/express.ts';
import { freshMachine } from '../helpers/pets.ts';

// The command with services that were built with the libraries of other projects.

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
