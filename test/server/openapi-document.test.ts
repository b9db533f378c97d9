import { createConfig, lintFromString } from '@redocly/openapi-core';
import { describe, expect, test } from 'vitest';
import { pageSize } from '../../src/contract/operations.ts';
import { MAX_BODY_BYTES } from '../../src/server/request/input.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import {
  conformance,
  described,
  describedAs,
  document,
  factsOf,
  factsOfContract,
} from '../helpers/openapi.ts';
import { sendToService } from '../helpers/raw-client.ts';
import { CLOSE, get } from '../helpers/raw-requests.ts';
import { type ServiceOptions, start } from '../helpers/service.ts';

const { mismatches, examples } = conformance(document);

async function lint(source: unknown): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source: JSON.stringify(source), config });
  return problems.map(({ severity, ruleId, message }) => `${severity} ${ruleId}: ${message}`);
}

describe('the document', () => {
  test('passes the linter without warnings', async () => {
    expect(await lint(document)).toEqual([]);
    expect(await lint({ ...document, paths: {} })).toContainEqual(
      expect.stringContaining('no-unused-components'),
    );
  });

  test.each(examples())('the example matches its schema: $where', (sample) => {
    expect(mismatches(sample)).toEqual([]);
  });

  test('has an example of every body and every error code', () => {
    const medias = described.flatMap(({ requestBody, responses }) =>
      [requestBody, ...Object.values(responses)].flatMap((each) => Object.values(each?.content ?? {})),
    );
    for (const media of medias) expect(Object.keys(media).join()).toMatch(/^schema,examples?$/);
    expect(describedAs('getPet').responses['429']?.content['application/json']).toMatchObject({
      examples: { rate_limited: expect.anything(), key_banned: expect.anything() },
    });
  });

  test('has an id that requests can use, and sample orders as an example', async () => {
    const [petId] = describedAs('getPet').parameters;
    expect(petId).toMatchObject({ example: 1, schema: { minimum: 1 } });
    const { call, store } = await start();
    await store.seed(sampleData());
    expect((await call(`/v1/pets/${petId?.example}`)).status).toBe(200);
    const orders = (await (await call('/v1/store/orders')).json()) as unknown[];
    const { content } = describedAs('listOrders').responses['200'] ?? {};
    expect(content?.['application/json']).toMatchObject({ example: orders.slice(0, 2) });
  });

  test('states for each header whether it is optional', () => {
    for (const each of Object.values(document.components.headers))
      expect(each.required).toBeTypeOf('boolean');
  });

  test('lists this service, production and staging', () => {
    expect(document.servers.map(({ url }) => url)).toEqual(['/v1', '{base_url}', '{staging_url}']);
  });

  test('has no value of an Idempotency-Key, with which the second call of a tool would add nothing', () => {
    const [key] = describedAs('createPet').parameters;
    expect(Object.keys(key ?? {}).sort()).toEqual(['description', 'in', 'name', 'required', 'schema']);
    expect(Object.keys(key?.schema ?? {}).sort()).toEqual(['minLength', 'type']);
  });

  test('names the default of the page size and the largest body', () => {
    expect(describedAs('listPets').parameters[0]?.description).toContain(`${pageSize.default} by default`);
    expect(describedAs('createPet').responses['413']?.description).toContain(`${MAX_BODY_BYTES} bytes`);
  });
});

test('the document and the contract state the same', () => {
  expect(factsOf(document)).toEqual(factsOfContract());
});

test('the service serves the document without a key', async () => {
  const { call, listening } = await start();
  const response = await call('/openapi.json', { headers: { Authorization: '' } });
  expect(response.headers.get('content-type')).toBe('application/json');
  const [local, ...others] = document.servers;
  const servers = [{ ...local, url: `${listening.origin}/v1` }, ...others];
  expect(await response.json()).toEqual({ ...document, servers });
});

describe('the first server of the document', () => {
  const servers = async (bytes: string, options: ServiceOptions = {}) => {
    const { responses } = await sendToService(bytes, options);
    return JSON.parse(responses[0]?.body ?? '').servers.map(({ url }: { url: string }) => url);
  };
  const named = (host: string) => `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\n${CLOSE}\r\n`;

  test.each([
    ['the address that the client used', named('localhost:7387'), 'http://localhost:7387/v1'],
    ['the one in an absolute target', get('http://127.0.0.1:80/openapi.json'), 'http://127.0.0.1:80/v1'],
    ['relative without a Host header', 'GET /openapi.json HTTP/1.0\r\n\r\n', '/v1'],
  ])('is %s', async (_about, bytes, url) => {
    expect(await servers(bytes)).toEqual([url, '{base_url}', '{staging_url}']);
  });

  test('is the public URL, if one is set', async () => {
    const publicUrl = 'https://shop.example/inventory/v1';
    expect((await servers(named('127.0.0.1'), { publicUrl }))[0]).toBe(publicUrl);
  });
});
