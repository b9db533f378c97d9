import { createConfig, lintFromString } from '@redocly/openapi-core';
import { describe, expect, test } from 'vitest';
import { operations, pageSize } from '../../src/contract/operations.ts';
import { planNames } from '../../src/contract/plans.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { conformance } from '../helpers/conformance.ts';
import { described, describedAs, document, table } from '../helpers/description.ts';
import { sendRaw, sendToService } from '../helpers/raw-client.ts';
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

  test.each(table)('%s: has the parameters and the body of the table', (name, { params, query, body }) => {
    const { parameters, requestBody } = describedAs(name);
    const names = (place: string) => parameters.filter((each) => each.in === place).map((each) => each.name);
    expect(names('path')).toEqual(Object.keys(params?.shape ?? {}));
    expect(names('query')).toEqual(Object.keys(query?.shape ?? {}));
    expect(requestBody?.required).toBe(body && true);
  });

  test.each(table)('%s: is deprecated according to the table', (name, { deprecated }) => {
    const { deprecated: isDeprecated, description } = describedAs(name);
    expect(isDeprecated).toBe(deprecated && true);
    if (deprecated) expect(description).toContain(deprecated.sunset.toUTCString());
    if (deprecated) expect(description).toContain(`GET ${deprecated.successor}`);
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

  test('has the schemas of the contract: 64-bit integers, an optional status, open objects', () => {
    const { Pet, NewPet, PetStatus, Orders } = document.components.schemas;
    const int64 = expect.objectContaining({ type: 'integer', format: 'int64' });
    expect(Pet).toMatchObject({ properties: { id: int64, categoryId: int64 } });
    expect(Pet?.['required']).toEqual(['id', 'name', 'categoryId']);
    expect(NewPet?.['required']).toEqual(['name', 'categoryId']);
    expect(PetStatus).toMatchObject({ type: 'string', enum: ['available', 'pending', 'sold'] });
    expect(Object.keys(Orders ?? {})).toEqual(['description']);
    expect([Pet, NewPet].map((each) => each?.['additionalProperties'] ?? {})).toEqual([{}, {}]);
    expect(describedAs('getPet').parameters[0]).toMatchObject({ required: true, schema: int64 });
    expect(describedAs('listPets').parameters[0]).toMatchObject({
      required: false,
      schema: { type: 'integer', minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default },
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
    const headers = [
      document.components.headers,
      ...described.flatMap(({ responses }) => Object.values(responses).map((response) => response.headers)),
    ].flatMap((each) => Object.values(each));
    for (const each of headers) if (!('$ref' in each)) expect(each.required).toBeTypeOf('boolean');
    const { Allow, 'Idempotency-Replayed': replayed, NextLink } = document.components.headers;
    expect([Allow, replayed, NextLink].map((each) => each?.required)).toEqual([true, false, false]);
  });

  test('has an Idempotency-Key only for operations that are not idempotent', () => {
    for (const { operationId, parameters } of described) {
      const { idempotent } = operations[operationId];
      expect(parameters.some(({ name }) => name === 'Idempotency-Key')).toBe(!idempotent);
    }
  });

  test('needs a bearer token, and lists this service, production and staging', () => {
    expect(document.security.map(Object.keys)).toEqual([Object.keys(document.components.securitySchemes)]);
    expect(Object.values(document.components.securitySchemes)).toMatchObject([
      { type: 'http', scheme: 'bearer' },
    ]);
    expect(document.servers.map(({ url }) => url)).toEqual(['/v1', '{base_url}', '{staging_url}']);
  });

  test('has the quotas of every plan', () => {
    const rows = document.info.description.split('\n').filter((line) => line.startsWith('| '));
    expect(rows.slice(1)).toEqual([
      '| Free | 60 | 1,000 |',
      '| Pro | 300 | 10,000 |',
      '| Business | 1,000 | 100,000 |',
      '| Enterprise | custom | custom |',
    ]);
    expect(rows.slice(1)).toHaveLength(planNames.length);
  });
});

test('the service serves the document without a key', async () => {
  const { call } = await start();
  const response = await call('/openapi.json', { headers: { Authorization: '' } });
  expect(response.headers.get('content-type')).toBe('application/json');
  expect(await response.json()).toEqual({ ...document, servers: expect.any(Array) });
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

  test('is never the address that an earlier client used', async () => {
    const { call, listening } = await start();
    const [local] = JSON.parse(await (await call('/openapi.json')).text()).servers;
    expect(local.url).toBe(`${listening.origin}/v1`);
    const [other] = await sendRaw(listening.port, named('shop.example'));
    expect(JSON.parse(other?.body ?? '').servers[0].url).toBe('http://shop.example/v1');
  });
});
