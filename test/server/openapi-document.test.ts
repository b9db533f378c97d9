import { createConfig, lintFromString } from '@redocly/openapi-core';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import {
  type ErrorCode,
  errorCodes,
  type Operation,
  type OperationName,
  operations,
  PageLimit,
  pageSize,
  plans,
} from '../../src/contract/api.ts';
import { header } from '../../src/contract/headers.ts';
import { int64, int64Text, stringifyJson } from '../../src/contract/json.ts';
import { ErrorBody, NewPet, Orders, Pet, PetStatus, Pets } from '../../src/contract/schemas.ts';
import { sampleData } from '../../src/server/mocks.ts';
import { MAX_BODY_BYTES } from '../../src/server/request/input.ts';
import { dereferenced, described, document, mismatches, type Schema, table } from '../helpers/openapi.ts';
import { CLOSE, get, sendToService } from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';

type Described = (typeof described)[number];
const byName = new Map(described.map((each) => [each.operationId, each]));
const describedAs = (name: OperationName) => byName.get(name) as Described;

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

  test('has examples: of every body, every error code, an id, orders, and headers, which the linter does not check', async () => {
    const medias = described.flatMap(({ requestBody, responses }) =>
      [requestBody, ...Object.values(responses)].flatMap((each) => Object.values(each?.content ?? {})),
    );
    for (const media of medias) expect(Object.keys(media).join()).toMatch(/^schema,examples?$/);
    const [petId] = describedAs('getPet').parameters;
    expect(petId).toMatchObject({ example: 1, schema: { minimum: 1 } });
    const { content } = describedAs('listOrders').responses['200'] ?? {};
    expect(content?.['application/json']?.example).toEqual(
      JSON.parse(stringifyJson(sampleData().orders.slice(0, 2))),
    );
    for (const [name, { required, schema, example }] of Object.entries(dereferenced().components.headers)) {
      expect(required, name).toBeTypeOf('boolean');
      expect(mismatches(name, schema, example)).toEqual([]);
    }
  });

  test('has no value of an Idempotency-Key, with which the second call of a tool would add nothing', () => {
    const [key] = describedAs('createPet').parameters;
    expect(Object.keys(key ?? {}).sort()).toEqual(['description', 'in', 'name', 'required', 'schema']);
    expect(Object.keys(key?.schema ?? {}).sort()).toEqual(['minLength', 'type']);
  });

  test('names limits, plans, error codes and the removal of an operation in its texts', () => {
    expect(describedAs('listPets').parameters[0]?.description).toContain(`${pageSize.default} by default`);
    expect(describedAs('createPet').responses['413']?.description).toContain(`${MAX_BODY_BYTES} bytes`);
    const { sunset, successor } = operations.getPet.deprecated;
    const removal = `removed on ${sunset.toUTCString()}. Use \`GET ${successor}\` with`;
    expect(describedAs('getPet').description).toContain(removal);
    const code = document.components.schemas['Error']?.properties?.['code'];
    expect(code?.description).toContain(`: ${Object.keys(errorCodes).join(', ')}. More`);
    for (const [name, { perMinute, perDay }] of Object.entries(plans)) {
      const quota = [perMinute, perDay].map((count) =>
        // The quotas of plan enterprise are agreed for each API key.
        name === 'enterprise' ? 'custom' : count.toLocaleString('en-US'),
      );
      const row = [name.replace(/^./, (letter) => letter.toUpperCase()), ...quota].join(' | ');
      expect(document.info.description).toContain(`\n| ${row} |`);
    }
  });
});

describe('the document and the contract state the same about', () => {
  const SCHEMAS = '#/components/schemas/';
  const named: Record<string, z.ZodMiniType> = { Pet, NewPet, PetStatus, Pets, Error: ErrorBody, Orders };

  /** A part of the document without texts, examples of single values, and headers of responses. */
  const withoutTexts = (part: object): object =>
    JSON.parse(
      JSON.stringify(part, (key, value) =>
        ['description', 'example', 'headers', 'tags'].includes(key) ? undefined : value,
      ),
    );

  test('operations, their parameters, and the bodies of their requests and responses', () => {
    const paths: Record<string, Record<string, object>> = {};
    for (const [operationId, operation] of table) {
      const { method, path, summary, deprecated, success, errors, body } = operation;
      const parameters = parametersOf(operation);
      paths[path] = {
        ...paths[path],
        [method.toLowerCase()]: {
          ...{ operationId, summary },
          ...(deprecated && { deprecated: true }),
          ...(parameters.length > 0 && { parameters }),
          ...(body && { requestBody: { required: true, content: contentOf(body) } }),
          responses: Object.fromEntries([
            [success.status, { content: contentOf(success.body) }],
            ...errors.map((status) => [status, { content: contentOf(ErrorBody, examplesOf(status)) }]),
          ]),
        },
      };
    }
    expect(withoutTexts(dereferenced(SCHEMAS).paths)).toEqual(paths);
  });

  test('schemas and authentication', () => {
    expect(withoutTexts(document.components.schemas)).toEqual(jsonSchemas(named));
    expect(document.security).toEqual([{ apiKey: [] }]);
    expect(withoutTexts(document.components.securitySchemes)).toEqual({
      apiKey: { type: 'http', scheme: 'bearer' },
    });
  });

  /** The body of a request or response. Its schema needs a name, so that generated clients have a type for it. */
  function contentOf(schema: z.ZodMiniType, examples?: Record<string, object>) {
    const name = Object.keys(named).find((each) => named[each] === schema);
    if (name === undefined) throw new Error('the contract has a body that is not in `named` in this test');
    return { 'application/json': { schema: { $ref: `${SCHEMAS}${name}` }, ...(examples && { examples }) } };
  }

  /** An example of each error code of a status. */
  const examplesOf = (status: number) =>
    Object.fromEntries(
      (Object.keys(errorCodes) as ErrorCode[])
        .filter((code) => errorCodes[code] === status)
        .map((code) => [
          code,
          { summary: expect.any(String), value: { code, message: expect.any(String), status } },
        ]),
    );

  function parametersOf({ params, query, acceptsIdempotencyKey }: Operation) {
    const of = (place: 'path' | 'query', schema: z.ZodMiniType | undefined) => {
      if (schema === undefined) return [];
      const { properties = {}, required = [] } = jsonSchemas({ ...named, [place]: schema })[place] as {
        properties?: Record<string, Schema>;
        required?: string[];
      };
      return Object.entries(properties).map(([name, each]) => ({
        ...{ name, in: place, required: required.includes(name) },
        // Because of the minimum, tools that generate requests ask for ids that an animal can have. Smaller ids get 404.
        schema: name === 'petId' ? { ...each, minimum: 1 } : each,
      }));
    };
    const key = {
      ...{ name: header.idempotencyKey, in: 'header', required: false },
      schema: { type: 'string', minLength: 1 },
    };
    return [...of('path', params), ...of('query', query), ...(acceptsIdempotencyKey ? [key] : [])];
  }

  const INT64 = { type: 'integer', format: 'int64' } as const;
  // The schemas that zod cannot convert, because they validate with a function.
  const checkedByFunction = new Map<z.core.$ZodType, Schema>([
    [int64._zod.def.in, INT64],
    [int64Text._zod.def.in, INT64],
    [
      PageLimit._zod.def.in,
      { type: 'integer', minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default },
    ],
  ]);

  function jsonSchemas(schemas: Record<string, z.ZodMiniType>): Record<string, Schema> {
    const registry = z.registry<{ id: string }>();
    for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
    const made = z.toJSONSchema(registry, {
      io: 'input',
      uri: (id) => `${SCHEMAS}${id}`,
      unrepresentable: ({ zodSchema }) => checkedByFunction.get(zodSchema) ?? 'throw',
      override: ({ jsonSchema }) => {
        // zod gives every integer the bounds MIN_SAFE_INTEGER and MAX_SAFE_INTEGER: remove them.
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      },
    });
    return Object.fromEntries(
      Object.entries(made.schemas).map(([id, { $id, $schema, ...schema }]) => [id, schema as Schema]),
    );
  }
});

test('the service serves the document without a key', async () => {
  const { call, listening } = await start();
  const response = await call('/openapi.json', { headers: { Authorization: '' } });
  expect(response.headers.get('content-type')).toBe('application/json');
  const [local, ...others] = document.servers;
  const servers = [{ ...local, url: `${listening.origin}/v1` }, ...others];
  expect(await response.json()).toEqual({ ...document, servers });
});

const named = (host: string) => `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\n${CLOSE}\r\n`;

test.each([
  ['the address that the client used', named('localhost:7387'), 'http://localhost:7387/v1'],
  ['the one in an absolute target', get('http://127.0.0.1:80/openapi.json'), 'http://127.0.0.1:80/v1'],
  ['relative without a Host header', 'GET /openapi.json HTTP/1.0\r\n\r\n', '/v1'],
])('the first server of the document is %s', async (_about, bytes, url) => {
  const { responses } = await sendToService(bytes);
  const { servers } = JSON.parse(responses[0]?.body ?? '') as typeof document;
  expect(servers.map((server) => server.url)).toEqual([url, '{base_url}', '{staging_url}']);
});
